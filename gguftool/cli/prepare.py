"""``gguftool prepare``: the whole way from a source to a file that is ready to launch."""

from __future__ import annotations

from typing import Any

import click

from gguftool.cli.options import Session, command, format_option, option, pass_session
from gguftool.cli.quantizing import chosen, quantizing
from gguftool.cli.values import CACHE_TYPES, COUNT, MODEL, SIZE, SIZES

DEPLOY = (
    "context_length",
    "rope_freq_base",
    "rope_freq_scale",
    "rope_scaling",
    "rope_scale_factor",
    "kv_cache_type",
)


@command(
    examples="""
    gguftool prepare model-f16.gguf -o model.gguf --quantize Q4_K_M
    gguftool prepare ./Qwen2-7B -o qwen2.gguf --quantize Q4_K_M --ctx 32768 --cache-type q8_0
    gguftool prepare hf://owner/repo -o model.gguf --quantize Q8_0 --vram 16GiB
    gguftool prepare model.gguf -o ready.gguf --ctx 8192
    """
)
@click.argument("source", type=MODEL, metavar="SOURCE")
@option("-o", "--output", required=True, type=click.Path(), metavar="OUT", help="File to make.")
@option("--quantize", "type_name", metavar="TYPE", help="For example Q4_K_M; the types stay when left out.")
@option("-c", "--ctx", "context_length", type=COUNT, metavar="N", help="Context to deploy with, in tokens: 32768, 32k.")
@option("--cache-type", "kv_cache_type", type=CACHE_TYPES, metavar="K[/V]", help="KV cache types to deploy with.")
@option("--rope-freq-base", type=float, metavar="F", help="RoPE base.")
@option("--rope-freq-scale", type=float, metavar="F", help="RoPE scale (1/factor).")
@option("--rope-scaling", type=click.Choice(["none", "linear", "yarn"]), help="RoPE scaling.")
@option("--rope-scale-factor", type=float, metavar="F", help="Factor of the RoPE scaling.")
@option(
    "--outtype",
    type=click.Choice(["auto", "f16", "bf16", "f32"]),
    default="auto",
    show_default=True,
    help="Type between converting and quantising.",
)
@option("--pre", metavar="NAME", help="Pre-tokenizer to take where the converter does not recognise it.")
@option("--converter-arg", "more", multiple=True, metavar="ARG", help="Hand ARG on to the converter.")
@option("--name", metavar="NAME", help="What the model is called (general.name); default: as the source says.")
@option("--no-mmproj", is_flag=True, help="Of a model that sees or hears make no projector (mmproj-OUT) beside it.")
@quantizing
@option("--allow-requantize", is_flag=True, help="Quantise what is quantised already; it loses quality twice.")
@option(
    "--engine",
    type=click.Choice(["auto", "llama-quantize", "library", "builtin"]),
    default="auto",
    show_default=True,
    help="What quantises; auto takes the first that is there.",
)
@option("--llama-cpp", metavar="PATH", help="The llama.cpp to use: its folder, or a program of it.")
@option(
    "--with", "beside", multiple=True, type=MODEL, metavar="FILE", help="To be used with it (a projector …): must fit."
)
@option("-t", "--threads", type=click.IntRange(min=1), metavar="N", help="Threads; all cores when left out.")
@option("--no-auto-fix", is_flag=True, help="Write the fields asked for and nothing else.")
@option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    default="warning",
    show_default=True,
    help="Findings of lint that stop it.",
)
@option("--vram", type=SIZES, metavar=SIZES.name, help="Memory of each device, for the plan.")
@option("--ram", type=SIZE, help="Memory of the host, for the plan.")
@option("--quantized-by", metavar="NAME", help="Who makes the file: general.quantized_by.")
@option("--repo", metavar="OWNER/NAME", help="Repository it will be published as: general.repo_url.")
@option("--publish", is_flag=True, help="For an upload: no records of gguftool in it; its line in SHA256SUMS.")
@option("--keep", is_flag=True, help="Keep the converted file in the work folder.")
@option("--overwrite", is_flag=True, help="Replace OUT when it exists.")
@option("--restart", is_flag=True, help="Begin anew: forget what an earlier run has done.")
@option("-y", "--yes", is_flag=True, help="Go on where a question about the deploy fields would be asked.")
@format_option("text", "json")
@pass_session
def prepare(session: Session, /, source: str, output: str, **options: Any) -> int:
    """Make a file that is ready to launch: convert, quantise, fix, lint, verify, manifest, plan.

    SOURCE is a Hugging Face folder, hf://owner/repo, or a GGUF model. Without llama.cpp a GGUF model in F16, BF16 or
    F32 is quantised by the built-in engine.

    OUT gets its name only when all checks are passed. State, logs and what lies in between are in OUT.prepare; the
    same command again goes on where an earlier run was interrupted, and does nothing when all is done.
    """
    from gguftool.api.prepare import prepare as make
    from gguftool.build import convert
    from gguftool.cli import prepare_shown as shown
    from gguftool.edit.deploy import Wanted
    from gguftool.errors import Bug
    from gguftool.report import prepare as report
    from gguftool.report.envelope import error_row

    o = options
    with shown.shown(session) as told:
        made = make(
            source,
            output,
            quantize=o["type_name"],
            wanted=Wanted(**{name: o[name] for name in DEPLOY}),
            converting=convert.Options(
                outtype=o["outtype"],
                llama_cpp=o["llama_cpp"],
                pre=o["pre"],
                more=o["more"],
                projector=not o["no_mmproj"],
                name=o["name"] or "",
            ),
            quantising=chosen(
                o,
                session.words,
                engine=o["engine"],
                llama_cpp=o["llama_cpp"],
                allow_requantize=o["allow_requantize"],
                threads=o["threads"] or 0,
            ),
            auto_fix=not o["no_auto_fix"],
            **{
                name: o[name]
                for name in (
                    "beside",
                    "quantized_by",
                    "repo",
                    "publish",
                    "fail_on",
                    "vram",
                    "ram",
                    "overwrite",
                    "keep",
                    "restart",
                    "yes",
                )
            },
            progress=told,
            event=shown.events(session),
            tell=session.warn,
        )
    bugs = [Bug(text, made.request.draft) for done in made.steps for text in _texts(done.data.get("failed_rules"))]
    code = Bug.exit_code if bugs else 0 if made.ok else 1
    if made.ok:
        session.did(f"made {made.request.output}")
    if session.format == "json":
        body = report.prepared_json(made.request, made.steps)
        session.write_json(ok=made.ok, body=body, errors=map(error_row, bugs))
    else:
        session.out(report.prepared_text(made.request, made.steps, made.ok, session.style))
        for bug in bugs:
            session.warn(str(bug))
    return code


def _texts(found: object) -> list[str]:
    return [str(text) for text in found] if isinstance(found, list) else []
