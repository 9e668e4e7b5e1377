"""``gguftool fix``: its options."""

from __future__ import annotations

import os
from typing import Any

import click

from gguftool.cli.options import Session, command, format_option, models_argument, option, pass_session
from gguftool.cli.values import CACHE_TYPES, MODEL, PATH, CountType, SizeType

F = option


@command(
    examples="""
    gguftool fix model.gguf --context-length 32768 --cache-type q8_0
    gguftool fix model.gguf --set general.name='My model' --set my.key:u32=5 --dry-run
    gguftool fix model.gguf --special eos='<|im_end|>' --chat-template chat.jinja
    gguftool fix model.gguf --auto
    gguftool fix model.gguf --from original.gguf --copy template,sampling
    gguftool fix model.gguf --edit
    gguftool fix *.gguf --set general.license=mit
    gguftool fix hf://owner/repo/m.gguf --set general.license=mit --patch-out p.json
    gguftool fix m.gguf --patch p.json                  on the machine that has the file
    gguftool fix ~/.cache/huggingface/hub/models--a--b/snapshots/c/m.gguf --auto --output m.gguf
    """
)
@models_argument
@F(
    "-c",
    "--ctx",
    "--context-length",
    "context_length",
    type=CountType(0),
    metavar="N",
    help="Context to record: 32768, 32k.",
)
@F("--rope-freq-base", type=float, metavar="F", help="RoPE base.")
@F("--rope-freq-scale", type=float, metavar="F", help="RoPE scale (1/factor): the record, and what llama.cpp reads.")
@F("--rope-scaling", type=click.Choice(["none", "linear", "yarn"]), help="How RoPE is stretched.")
@F("--rope-scale-factor", type=float, metavar="F", help="By how much RoPE is stretched.")
@F("--cache-type", "kv_cache_type", type=CACHE_TYPES, metavar="K[/V]", help="KV cache type to record.")
@F("--chat-template", type=PATH, metavar="FILE", help="Chat template: Jinja, tokenizer_config.json or a .gguf.")
@F("--sampling", metavar="NAME=X,…", help="Sampler settings, taken where no flag is given: temp=0.3,top_k=40.")
@F("--special", multiple=True, metavar="NAME=TOKEN", help="A special token by its text: eos='<|im_end|>'.")
@F("--set", "sets", multiple=True, metavar="KEY[:TYPE]=VALUE", help="Set a key, or one element: KEY[5]=VALUE.")
@F("--set-file", multiple=True, metavar="KEY[:TYPE]=PATH", help="Set a key to the content of a file.")
@F("--from", "source", type=MODEL, metavar="OTHER", help="Another model, to copy the keys of --copy from.")
@F(
    "--copy",
    multiple=True,
    metavar="KEY|GROUP,...",
    help="What to copy: template, tokenizer, sampling, a key, KEYS.*.",
)
@F("--edit", is_flag=True, help="Edit scalar metadata as TOML in $VISUAL, $EDITOR or vi; on a screen: `gguftool edit`.")
@F("--import", "toml", type=PATH, metavar="FILE", help="Set what a file of dump --export gives.")
@F("--delete", multiple=True, metavar="KEY", help="Remove a key.")
@F("--rename", multiple=True, metavar="OLD=NEW", help="Give a field another key; OLD.*=NEW.* all of a kind.")
@F("--auto", is_flag=True, help="All safe fixes of `gguftool lint`.")
@F("--dedupe", is_flag=True, help="Of duplicate keys keep the first.")
@F("--repack", is_flag=True, help="Lay the tensor data out anew, without gaps.")
@F("--realign", type=int, metavar="N", help="Lay the tensor data out with another alignment.")
@F("--reserve", type=SizeType(small=True), metavar="SIZE", help="Keep that much room in the header for later edits.")
@F("--strip-padding", is_flag=True, help="Remove that room, before publishing.")
@F(
    "--publish",
    is_flag=True,
    help="For an upload: no room, records of gguftool, default alignment, empty arrays; write manifest and SHA256SUMS.",
)
@F("-n", "--dry-run", is_flag=True, help="Show the changes, the strategy and the bytes; write nothing.")
@F("-o", "--output", type=MODEL, metavar="FILE", help="Write a new file; the input is never touched.")
@F(
    "--patch-out",
    type=MODEL,
    metavar="FILE",
    help="Write the edit as a small file, for a copy elsewhere; the model may be an address.",
)
@F("--patch", "patch_file", type=MODEL, metavar="FILE", help="Make the edit of such a file.")
@F("--strategy", type=click.Choice(["patch", "insert", "rewrite"]), help="How to write, instead of choosing.")
@F("--in-use", type=click.Choice(["refuse", "rewrite", "patch"]), default="refuse", help="When the file is open.")
@F("--hard-links", type=click.Choice(["refuse", "follow", "break"]), default="refuse", help="When it has other names.")
@F("--no-undo", is_flag=True, help="Keep no undo record.")
@F("--preserve-mtime", is_flag=True, help="Leave the time of last change as it was.")
@F("-y", "--yes", is_flag=True, help="Go on where quality would suffer or llama.cpp would not run it any more.")
@F("--force", is_flag=True, help="Take sparse files and types other than the known ones.")
@format_option("text", "json")
@pass_session
def fix(session: Session, /, models: tuple[str, ...], **given: Any) -> int:
    """Edit models in place: crash-safe, undoable, no copy of the tensor data.

    Keys without a prefix get the model's architecture: context_length is written as qwen2.context_length. Known keys
    get the type that readers expect. Without any change asked for, it shows what --auto would do.

    Of several models each is edited for itself; what one is refused does not keep the others. The exit code is the
    worst.
    """
    from gguftool.cli.fix_many import fix_all, fix_one

    if given["source"] is not None:
        # `fix MODEL --from OTHER KEY…`: what can be no model is a key.
        keys = tuple(word for word in models[1:] if not _names_a_model(word))
        models = tuple(word for word in models if word not in keys)
        given["copy"] += keys
    if given["patch_out"] is not None and len(models) == 1:
        from gguftool.cli.fix_patch import write_patch

        return write_patch(session, models[0], given)
    if len(models) == 1:
        return fix_one(session, models[0], given).told(session)
    if given["edit"]:
        raise click.UsageError("--edit shows one model, so it goes with one MODEL.")
    for name in ("output", "patch_out"):
        if given[name] is not None:
            raise click.UsageError(f"--{name.replace('_', '-')} names one file, so it goes with one MODEL.")
    return fix_all(session, models, given)


def _names_a_model(word: str) -> bool:
    return "://" in word or os.sep in word or word.lower().endswith(".gguf") or os.path.exists(word)
