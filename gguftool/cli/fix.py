"""``gguftool fix``: options to operations, a plan, and the commit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from gguftool.cli.complete import FILE_SETTING, KEY_OF_FILE, RENAMING, SETTING
from gguftool.cli.options import Session, command, format_option, model_argument, option, pass_session
from gguftool.cli.values import CACHE_TYPES, MODEL, CountType, SizeType
from gguftool.report.text import safe
from gguftool.shell import gguftool, path_word

if TYPE_CHECKING:
    from collections.abc import Callable

    from gguftool.edit.ops import Operation
    from gguftool.model import Model

F = option


@command(
    examples="""
    gguftool fix model.gguf --context-length 32768 --cache-type q8_0
    gguftool fix model.gguf --set general.name='My model' --set my.key:u32=5 --dry-run
    gguftool fix model.gguf --special eos='<|im_end|>' --chat-template chat.jinja
    gguftool fix model.gguf --auto
    gguftool fix ~/.cache/huggingface/hub/models--a--b/snapshots/c/m.gguf --auto --output m.gguf
    """
)
@model_argument
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
@F("--chat-template", type=click.Path(), metavar="FILE", help="Chat template out of a file.")
@F("--sampling", metavar="NAME=X,…", help="Sampler settings, taken where no flag is given: temp=0.3,top_k=40.")
@F("--special", multiple=True, metavar="NAME=TOKEN", help="A special token by its text: eos='<|im_end|>'.")
@F("--set", "sets", multiple=True, type=SETTING, help="Set a key, or one element: KEY[5]=VALUE.")
@F("--set-file", multiple=True, type=FILE_SETTING, help="Set a key to the content of a file.")
@F("--delete", multiple=True, type=KEY_OF_FILE, help="Remove a key.")
@F("--rename", multiple=True, type=RENAMING, help="Give a field another key; OLD.*=NEW.* all of a kind.")
@F("--auto", is_flag=True, help="All safe fixes of `gguftool lint`.")
@F("--dedupe", is_flag=True, help="Of duplicate keys keep the first.")
@F("--repack", is_flag=True, help="Lay the tensor data out anew, without gaps.")
@F("--realign", type=int, metavar="N", help="Lay the tensor data out with another alignment.")
@F("--reserve", type=SizeType(small=True), metavar="SIZE", help="Keep that much room in the header for later edits.")
@F("--strip-padding", is_flag=True, help="Remove that room, before publishing.")
@F("-n", "--dry-run", is_flag=True, help="Show the changes, the strategy and the bytes; write nothing.")
@F("-o", "--output", type=MODEL, metavar="FILE", help="Write a new file; the input is never touched.")
@F("--strategy", type=click.Choice(["patch", "insert", "rewrite"]), help="How to write, instead of choosing.")
@F("--in-use", type=click.Choice(["refuse", "rewrite", "patch"]), default="refuse", help="When the file is open.")
@F("--hard-links", type=click.Choice(["refuse", "follow", "break"]), default="refuse", help="When it has other names.")
@F("--no-undo", is_flag=True, help="Keep no undo record.")
@F("--preserve-mtime", is_flag=True, help="Leave the time of last change as it was.")
@F("-y", "--yes", is_flag=True, help="Go on where quality would suffer or llama.cpp would not run it any more.")
@F("--force", is_flag=True, help="Take sparse files and types other than the known ones.")
@format_option("text", "json")
@pass_session
def fix(session: Session, /, model: str, **given: Any) -> int:
    """Edit a model in place: crash-safe, undoable, no copy of the tensor data.

    Keys without a prefix get the model's architecture: context_length is written as qwen2.context_length. Known keys
    get the type that readers expect. Without any change asked for, it shows what --auto would do.
    """
    from gguftool.edit.plan import plan_edit
    from gguftool.edit.which import settled
    from gguftool.errors import Refused
    from gguftool.hub import on_this_machine
    from gguftool.model import open_model
    from gguftool.report.edit import changes_text, done_text, plan_body, plan_text, recovered_text

    path, outcomes = settled(on_this_machine(model), write=not given["dry_run"] and given["output"] is None)
    for outcome in outcomes:
        session.note(recovered_text(outcome, session.style))
    preview = False
    with open_model(path, strict=False) as opened:
        path = opened.name
        operations, notes = _operations(opened, given)
        if not operations and not _asked(given):
            preview = True
            operations = _auto(opened, notes)
    choices = {
        "strategy": given["strategy"],
        "output": given["output"],
        "in_use": given["in_use"],
        "hard_links": given["hard_links"],
        "force": given["force"],
        "harm": "allow" if given["yes"] else "refuse",
        "keep_undo": not given["no_undo"],
        "preserve_mtime": given["preserve_mtime"],
        "argv": sys.argv[1:],
    }
    try:
        plan = plan_edit(path, operations, **choices)
    except Refused as refusal:
        if not preview:
            raise
        # Nobody asked to write: say what would be changed, and where that has to go.
        notes.append(f"{refusal}; {refusal.hint}")
        plan = plan_edit(path, operations, **{**choices, "output": "NEW.gguf"})
    if preview or given["dry_run"]:
        if session.format == "json":
            session.write_json(ok=True, body=plan_body(plan, None, notes))
            return 0
        session.out(_preview_text(preview, bool(operations)) + plan_text(plan, session.style))
        for note in (*notes, *plan.notes):
            session.note(f"note: {safe(note)}")
        session.note(_next(preview, bool(operations), path, plan.output))
        return 0
    result = plan.commit(_progress(session))
    if session.format == "json":
        session.write_json(ok=True, body=plan_body(plan, result, notes))
        return 0
    if result.strategy != "none":
        session.out(changes_text(plan, session.style))
    for note in (*notes, *plan.notes):
        session.note(f"note: {safe(note)}")
    session.out(done_text(plan, result, session.style))
    return 0


# In the order of `gguftool.edit.deploy.Wanted`.
_DEPLOY = "context_length rope_freq_base rope_freq_scale rope_scaling rope_scale_factor kv_cache_type".split()
_CHANGES = (
    *_DEPLOY,
    *"chat_template sampling special sets set_file delete rename auto dedupe".split(),
    *"repack realign reserve strip_padding".split(),
)


def _asked(given: dict[str, Any]) -> bool:
    return any(given[name] is not None and given[name] is not False and given[name] != () for name in _CHANGES)


def _operations(model: Model, given: dict[str, Any]) -> tuple[list[Operation], list[str]]:
    """What the options ask for, in the order in which it makes sense to do it."""
    from gguftool.edit import ops, request

    out: list[Operation] = []
    notes: list[str] = []
    if given["dedupe"]:
        out.append(ops.Dedupe())
    if given["auto"]:
        out.extend(_auto(model, notes))
    out.extend(request.delete_operation(model, key) for key in given["delete"])
    for text in given["rename"]:
        out.extend(request.rename_operations(model, text))
    if any(given[name] is not None for name in _DEPLOY):
        from gguftool.edit import deploy

        advice = deploy.deploy(model, deploy.Wanted(*(given[name] for name in _DEPLOY)), yes=given["yes"])
        out.extend(advice.operations)
        notes.extend(advice.notes)
    if given["chat_template"] is not None:
        operation, note = request.template_operation(given["chat_template"])
        out.append(operation)
        notes.extend(filter(None, [note]))
    if given["sampling"] is not None:
        out.extend(request.sampling_operations(given["sampling"]))
    for text in given["special"]:
        operation, note = request.special_operation(model, text)
        out.append(operation)
        notes.extend(filter(None, [note]))
    out.extend(request.set_operation(model, text) for text in given["sets"])
    out.extend(request.set_file_operation(model, text) for text in given["set_file"])
    if given["repack"]:
        out.append(ops.Repack())
    if given["realign"] is not None:
        out.append(ops.Realign(given["realign"]))
    if given["strip_padding"]:
        out.append(ops.Strip())
    if given["reserve"] is not None:
        out.append(ops.Reserve(given["reserve"]))
    return out, notes


def _auto(model: Model, notes: list[str]) -> list[Operation]:
    """All safe fixes of lint; what cannot be applied is a note."""
    from gguftool.lint.fixes import collect

    fixes = collect(model)
    notes.extend(f"{finding.rule}: cannot be fixed here: {why}" for finding, why in fixes.refused)
    return list(fixes.operations)


def _preview_text(preview: bool, any_fix: bool) -> str:
    if not preview:
        return ""
    return "No change was asked for. This is what --auto would do:\n" if any_fix else "No change was asked for.\n"


def _next(preview: bool, any_fix: bool, path: str, output: str | None) -> str:
    if not preview:
        return "nothing was written (--dry-run)"
    if any_fix:
        elsewhere = ("--output", output) if output is not None else ()
        return f"nothing was written; to do it: {gguftool('fix', path_word(path), '--auto', *elsewhere)}"
    look = gguftool("lint", path_word(path))
    return f"lint knows no safe fix for this file (--help lists the options); what lint says: {look}"


def _progress(session: Session) -> Callable[[int, int], None] | None:
    """Percent on stderr, when somebody looks at it."""
    if session.quiet or not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        sys.stderr.write(f"\rcopying {100 * done // max(1, total)} %" + ("\r\x1b[K" if done >= total else ""))
        sys.stderr.flush()

    return show
