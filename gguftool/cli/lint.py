"""``gguftool lint``: check models against the rules."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from gguftool.cli.builds import build_options
from gguftool.cli.options import Session, command, format_option, option, pass_session
from gguftool.cli.output_file import output_option, written_to
from gguftool.cli.values import CACHE_TYPES, COUNT, MODEL, PATH
from gguftool.report.gates import GATES

if TYPE_CHECKING:
    from collections.abc import Callable

    from gguftool.cli.lint_fix import Fixed
    from gguftool.cli.lint_setup import Settings
    from gguftool.lint.baseline import Baseline
    from gguftool.lint.check import FileCheck


@command(
    examples="""
    gguftool lint model.gguf                              all rules
    gguftool lint --ctx 32768 --cache-type q8_0 model.gguf
                                                          is it ready for that deployment?
    gguftool lint --fix model.gguf                        apply the safe fixes
    gguftool lint --fix --dry-run model.gguf              show them only
    gguftool lint --select deploy,rope --fail-on error *.gguf
    gguftool lint --against ./hf-folder model.gguf        compare with config.json and the tokenizer
    gguftool lint --against ./hf-folder --tokenizer model.gguf
                                                          does it cut text, and build prompts, as its source does?
    gguftool lint model.gguf --with mmproj.gguf           does the projector (adapter, draft …) fit it?
    gguftool lint --build b8179 model.gguf                will that llama.cpp load it?
    gguftool lint hf://owner/repo                         every file of a repository
    gguftool lint 'models/**/*.gguf'                      the pattern is taken by gguftool itself
    gguftool lint --format sarif --output-file lint.sarif model.gguf
    gguftool lint --format json --exit-zero model.gguf > known.json
    gguftool lint --baseline known.json model.gguf        only what is new
    """
)
@click.argument("models", type=MODEL, metavar="MODEL...", nargs=-1)
@format_option("text", "json", "jsonl", *GATES)
@option("--select", multiple=True, metavar="RULE|FAMILY", help="Only these; comma separated or given again.")
@option("--ignore", multiple=True, metavar="RULE|FAMILY", help="All but these.")
@option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    help="Exit with 1 from this severity on.  [default: warning]",
)
@option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found.")
@option("--fix", "fix", is_flag=True, help="Apply the safe fixes, then report what is left.")
@option("--fix-unsafe", is_flag=True, help="Apply all fixes, also those that change what llama.cpp computes.")
@option(
    "-n", "--dry-run", "diff", is_flag=True, aliases=("--diff",), help="Show what --fix would change; write nothing."
)
@option("-c", "--ctx", "context_length", type=COUNT, metavar="N", help="Context wanted, in tokens: 32768, 32k.")
@option("--cache-type", type=CACHE_TYPES, metavar="K[/V]", help="KV cache types wanted.")
@option("--against", type=MODEL, metavar="HF_FOLDER", help="Compare with a Hugging Face folder or hf://owner/repo.")
@option(
    "--tokenizer",
    is_flag=True,
    help="With --against: cut 3,000 texts with llama.cpp and with tokenizer.json, and compare prompts.",
)
@option(
    "--with",
    "beside",
    multiple=True,
    type=MODEL,
    metavar="FILE",
    help="Check this file too, and that it fits.",
)
@option("--data", is_flag=True, help="Read the tensor data too: NaN, infinities, broken scales.")
@option("--policy", type=PATH, metavar="FILE", help="Demands of your own, as TOML.")
@option("--baseline", type=PATH, metavar="FILE", help="Leave out the findings of a saved JSON report.")
@option("--layout", type=click.Choice(["lmstudio"]), help="Check where the files of a whole models folder lie.")
@option("--config", "config_file", type=PATH, metavar="FILE", help="Settings instead of gguftool.toml.")
@option("--no-config", is_flag=True, help="Look for no gguftool.toml or pyproject.toml.")
@option("--statistics", is_flag=True, help="How often each rule found something, in place of the findings.")
@option("--show-settings", is_flag=True, help="Show which settings are in force, and who said so; check nothing.")
@output_option
@build_options
@option("--no-load", is_flag=True, help="Do not predict what llama.cpp does with the file.")
@pass_session
def lint(session: Session, /, models: tuple[str, ...], **options: Any) -> int:
    """Find what breaks deployments, with a fix for each fault that can be fixed.

    A MODEL may be a pattern (models/*.gguf, models/**/*.gguf). Of a folder or a repository (hf://owner/repo) every file
    in it is checked, of a folder also whether its projectors fit its model. Files that --with names (a projector, an
    adapter, a control vector, a draft model, an importance matrix) are checked and held against each model.

    Exit code 1 from a warning on (see --fail-on), 3 for a file that cannot be read as GGUF to the end of its header.
    """
    from gguftool.cli.lint_setup import settings

    if options["statistics"] and session.format not in ("text", "json"):
        raise click.UsageError("--statistics is for --format text and json.")
    if options["show_settings"]:
        from gguftool.cli.show_settings import show
        from gguftool.lint.config import chosen

        return show(session, options, chosen(options["config_file"], options["no_config"]))
    if not models:
        raise click.UsageError("Missing argument 'MODEL...'.")
    s = settings(session, {**options, "models": models})
    with written_to(session, options["output_file"]) as told:
        return _checked(session, models, options, s, told)


def _checked(
    session: Session, models: tuple[str, ...], options: dict[str, Any], s: Settings, told: Callable[[str], None]
) -> int:
    from gguftool.cli.lint_setup import Beside, targets
    from gguftool.cli.lint_shown import write_checks
    from gguftool.hub.ahead import Ahead
    from gguftool.lint.check import check
    from gguftool.report.lint import summary_lines
    from gguftool.report.text import Style, safe

    beside = Beside(tuple(p for p in models if os.path.isdir(p)), targets(options["beside"], None))
    models = targets(models, options["layout"])
    checks: list[FileCheck] = []
    fixed: list[Fixed] = []
    if s.fix is not None:
        from gguftool.cli.lint_fix import fix_models

        fixed = fix_models(session, models, s)
        if changed := [f.path for f in fixed if f.done]:
            session.did(f"fixed {', '.join(changed[:3])}{' …' if len(changed) > 3 else ''}")
    every = (*models, *beside.named)
    with Ahead(every, s.opener) as opener:
        for one in check(
            every,
            opener,
            s.context,
            select=s.select,
            ignore=s.ignore,
            load=s.load,
            beside=beside,
            ignored=s.ignored,
        ):
            shown = one if s.known is None else _new(one, s, s.known)
            checks.append(shown)
            if session.format == "jsonl":
                write_checks([shown], session, s.fail_on)
    beside.used()
    failed = [f.error.exit_code for f in fixed if f.error is not None]
    code = 0 if s.exit_zero else max(*failed, 0, *(c.exit_code(s.fail_on) for c in checks))
    session.done_code = code
    if session.format != "jsonl":
        write_checks(checks, session, s.fail_on, fixed, statistics=options["statistics"])
    told(next(summary_lines(checks, Style())))
    for text in beside.notes:
        session.note(f"note: {safe(text)}")
    if s.known is not None:
        _remarks(session, s.known)
    return code


def _new(one: FileCheck, s: Settings, known: Baseline) -> FileCheck:
    """The check without what the baseline holds."""
    from gguftool.lint.baseline import without_known
    from gguftool.lint.run import judged

    ignore = (*s.ignore, *s.ignored(one.path))
    ran = judged(one.report, s.context, s.select, ignore, s.load) if one.report else None
    return without_known(one, known, ran)


def _remarks(session: Session, known: Baseline) -> None:
    """What is to be said of a baseline as such."""
    from gguftool.lint.baseline import of_no_file
    from gguftool.report.text import safe

    path, lost = known.path, of_no_file(known)
    if known.old:
        session.note(
            f"{safe(path)}: made by an earlier gguftool, without the facts: make it again to have them compared"
        )
    if lost:
        session.note(f"{safe(path)}: {lost} of its findings are of files that are no longer there")
