"""``gguftool dump``: what is in a model."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from gguftool.cli.options import Session, command, format_option, model_argument, option, pass_session
from gguftool.errors import UsageError
from gguftool.shell import gguftool, path_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gguftool.format.header import Field
    from gguftool.model import Model, Tensor
    from gguftool.model.overview import Overview


@command(
    examples="""
    gguftool dump model.gguf                        everything: overview, metadata, tensors
    gguftool dump --overview model.gguf             the first screen alone
    gguftool dump --keys '*.rope.*' --no-tensors model.gguf
    gguftool dump --raw tokenizer.chat_template model.gguf > template.jinja
    gguftool dump --export keys.toml model.gguf     to edit and give back with `gguftool fix --import`
    gguftool dump --tokens 0:20 model.gguf
    gguftool dump --format json model.gguf | jq .summary
    """
)
@model_argument
@format_option("text", "json", "markdown")
@option("--keys", multiple=True, metavar="GLOB", help="Only metadata keys that match; may be given again.")
@option("--tensors", multiple=True, metavar="GLOB", help="Only tensors whose name matches; may be given again.")
@option("--no-tensors", is_flag=True, help="Leave the tensors out.")
@option("--no-metadata", is_flag=True, help="Leave the metadata out.")
@option("--overview", "only_overview", is_flag=True, help="The first screen alone.")
@option("--full", is_flag=True, help="Whole arrays and long strings.")
@option("--raw", metavar="KEY", help="The value of one key alone, as it is, to stdout.")
@option("--export", metavar="FILE", help="Write the scalar metadata as TOML, for `gguftool fix --import`; - is stdout.")
@option(
    "--byte-map",
    "layout",
    aliases=("--layout",),
    is_flag=True,
    help="The byte map: header, filler, padding, tensors, gaps.",
)
@option("--tokens", metavar="FROM:TO", help="A stretch of the vocabulary with types and scores.")
@pass_session
def dump(
    session: Session,
    model: str,
    keys: tuple[str, ...],
    tensors: tuple[str, ...],
    no_tensors: bool,
    no_metadata: bool,
    only_overview: bool,
    full: bool,
    raw: str | None,
    export: str | None,
    layout: bool,
    tokens: str | None,
) -> int:
    """Show what a model is: an overview, its metadata, its tensors.

    A broken file is shown as far as it can be read; the exit code is 3 then.
    """
    from gguftool.cli.opened import open_for
    from gguftool.model.overview import overview
    from gguftool.report import dump as report

    beside = not (raw or export or keys or tensors or layout or tokens)
    until = raw if session.format != "json" else None
    with open_for(session, model, strict=False, beside=beside, until=until) as m:
        if raw is not None and session.format == "json":
            body = report.dump_json(overview(m), m, [m.field(raw)], None, full=True)
            session.write_json(ok=not _broken(m), body=body, errors=_errors(m))
            return 3 if _broken(m) else 0
        if raw is not None:
            sys.stdout.flush()
            sys.stdout.buffer.write(report.raw_value(m.field(raw)))
            return 0
        if export is not None:
            return _export(session, m, export)
        o = overview(m)
        fields = None if no_metadata or only_overview else report.matching_fields(m, keys)
        found = None if no_tensors or only_overview else report.matching_tensors(m, tensors)
        # Asking for some keys or some tensors is asking for nothing else.
        if keys and not tensors:
            found = None
        if tensors and not keys:
            fields = None
        if session.format == "json":
            body = report.dump_json(o, m, fields, found, full=full)
            if layout:
                body["layout"] = report.layout_json(m)
            if tokens:
                body["tokens"] = report.TokensJson(m, *_stretch(session, tokens, m))
            session.write_json(ok=not _broken(m), body=body, errors=_errors(m))
        elif layout:
            session.out(report.layout_text(m, session.style))
        elif tokens:
            start, stop = _stretch(session, tokens, m)
            for piece in report.tokens_text(m, start, stop, session.style):
                session.out(piece)
        else:
            chosen = bool(keys or tensors)
            _text(session, m, o, fields, found, full=full, chosen=chosen)
        for what, asked, got in (("key", keys, fields), ("tensor", tensors, found)):
            if asked and got is not None and not got:
                session.warn(f"{m.name}: no {what} matches {' or '.join(asked)}")
        if session.format != "json":
            for text in (*(p.message for p in m.problems), _missing(m)):
                if text:
                    session.warn(f"{m.name}: {text}")
        return 3 if _broken(m) else 0


def _export(session: Session, m: Model, path: str) -> int:
    from gguftool.cli import editor
    from gguftool.report.text import safe

    if session.format != "text":
        raise UsageError("--export writes TOML, so it goes without --format")
    if path == "-":
        session.out(editor.exported(m), whole=True)
    else:
        editor.export(m, path)
        session.did(f"wrote {path}")
        session.out(f"wrote {safe(path)}")
    for text in (*(p.message for p in m.problems), _missing(m)):
        if text:
            session.warn(f"{m.name}: {text}")
    return 3 if _broken(m) else 0


def _text(
    session: Session,
    m: Model,
    o: Overview,
    fields: list[Field] | None,
    found: list[Tensor] | None,
    *,
    full: bool,
    chosen: bool,
) -> None:
    from gguftool.report import dump as report
    from gguftool.report.overview import memory_line, overview_lines

    markdown = session.format == "markdown"
    style = session.style
    limit = max(40, _columns() - 60)

    # Each section is written before the next one is made: together they are a third of what the longest dump takes.
    def sections() -> Iterator[str]:
        if not chosen:
            text = "\n".join(overview_lines(o, memory_line(m, o), style))
            yield f"```\n{text}\n```" if markdown else text
            del text
        if fields is not None:
            yield report.metadata_text(fields, full=full, limit=limit, style=style, markdown=markdown)
        if found is not None:
            yield report.tensor_text(m, found, style=style, markdown=markdown)

    for i, section in enumerate(sections()):
        if i:
            session.out("\n")
        session.out(section)


def _columns() -> int:
    """Width of the terminal; 140 when there is none (shutil's way costs 6 ms of imports)."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except OSError:
        return 140


def _broken(m: Model) -> bool:
    return bool(m.missing_shards) or any(p.fatal for p in m.problems)


def _errors(m: Model) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [
        {"code": "not-readable", "message": f"{m.name}: {p.message}", "hint": gguftool("lint", path_word(m.name))}
        for p in m.problems
        if p.fatal
    ]
    if text := _missing(m):
        hint = gguftool("verify", path_word(m.name))
        rows.append({"code": "not-readable", "message": f"{m.name}: {text}", "hint": hint})
    return rows


def _missing(m: Model) -> str:
    from gguftool.model.missing import missing_text

    return missing_text(m.missing_shards, m.shard_count, m.missing_names) if m.missing_shards else ""


def _stretch(session: Session, text: str, m: Model) -> tuple[int, int]:
    """``10:20``, ``10:``, ``:20`` or one number, within the vocabulary."""
    from gguftool.errors import UsageError
    from gguftool.format.types import ARR
    from gguftool.report.dump import MOST_TOKENS

    tokens = m.fields.get("tokenizer.ggml.tokens")
    if tokens is None or tokens.type != ARR:
        raise UsageError(f"{m.name}: has no tokenizer.ggml.tokens")
    n = tokens.count or 0
    first, colon, last = text.partition(":")
    try:
        start = int(first) if first else 0
        stop = (int(last) if last else n) if colon else start + 1
    except ValueError:
        raise UsageError(f"--tokens {text}: expected FROM:TO", "for example --tokens 0:20") from None
    if start < 0 or stop < 0 or start >= n:
        raise UsageError(f"--tokens {text}: the vocabulary has ids 0 to {n - 1:,}")
    stop = min(stop, n)
    if stop - start > MOST_TOKENS:
        stop = start + MOST_TOKENS
        session.warn(f"{m.name}: {n:,} tokens; shown are {start:,} to {stop - 1:,}, the next ones by --tokens {stop}:")
    return start, stop
