"""``gguftool prepare``: the whole way from a source to a file that is ready to launch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from gguftool.cli.complete import QUANT, QUANT_OF_TENSOR
from gguftool.cli.options import Session, command, format_option, option, pass_session
from gguftool.cli.values import CACHE_TYPES, COUNT, MODEL, SIZE, SIZES
from gguftool.report.text import safe

if TYPE_CHECKING:
    from gguftool.build.pipeline import Done, Step
    from gguftool.build.prepare import Progress, Request


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
@option("--quantize", "type_name", type=QUANT, help="For example Q4_K_M; the types stay when left out.")
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
@option("--imatrix", type=click.Path(), metavar="FILE", help="Importance matrix made by llama-imatrix.")
@option("--tensor-type", "tensor_types", multiple=True, type=QUANT_OF_TENSOR, help="Type of tensors like NAME.")
@option("--allow-requantize", is_flag=True, help="Quantise what is quantised already; it loses quality twice.")
@option(
    "--engine",
    type=click.Choice(["auto", "llama-quantize", "library", "builtin"]),
    default="auto",
    show_default=True,
    help="What quantises; auto takes the first that is there.",
)
@option("--llama-cpp", metavar="PATH", help="The llama.cpp to use: its folder, or a program of it.")
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
    from gguftool.build import pipeline
    from gguftool.build import prepare as build
    from gguftool.cli import prepare_steps
    from gguftool.report import prepare as report
    from gguftool.verify.manifest import check_name

    request = _request(session, source, output, options)
    check_name(f"{output}.manifest")
    if options["restart"]:
        build.forget(request)
    fresh = not os.path.isfile(os.path.join(request.folder, pipeline.STATE))
    with prepare_steps.shown(session) as told:
        steps = _steps(request, options, told)
        notes = build.preflight(request, build.is_published(request)) if fresh else ()
        inputs = pipeline.fingerprint(build.inputs(request), told)
        done_before = pipeline.ready(steps, request.folder, inputs)
        if not fresh:
            published = done_before > [s.name for s in steps].index("publish") or build.is_published(request)
            notes = build.preflight(request, published)
        for note in notes:
            session.warn(note)
        done = pipeline.run(steps, request.folder, inputs, prepare_steps.events(session, done_before))
    ok = all(d.ok for d in done) and len(done) == len(steps)
    if ok:
        build.tidy(request)
    _report(session, request, done, ok, report)
    return 0 if ok else 1


def _report(session: Session, request: Request, done: list[Done], ok: bool, report: Any) -> None:
    if session.format == "json":
        session.write_json(ok=ok, body=report.prepared_json(request, done))
    else:
        session.out(report.prepared_text(request, done, ok, session.style))


def _request(session: Session, source: str, output: str, options: dict[str, Any]) -> Request:
    from gguftool.build import convert, quantize
    from gguftool.build.ftypes import target
    from gguftool.build.prepare import Request
    from gguftool.edit.deploy import Wanted
    from gguftool.hub import is_remote, on_this_machine

    if source.startswith("hf://") and not source.endswith(".gguf") and ":" not in source[5:]:
        from gguftool.hub.download import model_folder

        session.note(f"fetching {safe(source)} into the Hugging Face cache ...")
        source = model_folder(source)
    elif is_remote(source):
        source = on_this_machine(source)
    wanted = Wanted(
        context_length=options["context_length"],
        rope_freq_base=options["rope_freq_base"],
        rope_freq_scale=options["rope_freq_scale"],
        rope_scaling=options["rope_scaling"],
        rope_scale_factor=options["rope_scale_factor"],
        kv_cache_type=options["kv_cache_type"],
    )
    return Request(
        source=source,
        output=output,
        quantize=target(options["type_name"]).name if options["type_name"] else None,
        wanted=wanted,
        convert=convert.Options(
            outtype=options["outtype"], llama_cpp=options["llama_cpp"], pre=options["pre"], more=options["more"]
        ),
        quantising=quantize.Options(
            engine=options["engine"],
            llama_cpp=options["llama_cpp"],
            overrides=quantize.overrides(options["tensor_types"]),
            imatrix=options["imatrix"],
            allow_requantize=options["allow_requantize"],
            threads=options["threads"] or 0,
            overwrite=True,
        ),
        overwrite=options["overwrite"],
        keep=options["keep"],
        yes=options["yes"],
    )


def _steps(request: Request, options: dict[str, Any], told: Progress) -> list[Step]:
    from gguftool.build import prepare as build
    from gguftool.cli import prepare_steps as judge

    against = request.source if request.converts else None
    fixes = judge.safe_fixes(request.wanted, against) if not options["no_auto_fix"] else judge.nothing
    return [
        *([build.convert_step(request, told)] if request.converts else []),
        build.quantize_step(request, told),
        build.fix_step(request, fixes, {"auto": not options["no_auto_fix"]}),
        judge.lint_step(request, against, options["fail_on"]),
        judge.verify_step(request),
        build.publish_step(request),
        judge.manifest_step(request, told),
        judge.plan_step(request, options["vram"], options["ram"]),
    ]
