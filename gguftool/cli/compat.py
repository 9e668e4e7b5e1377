"""``gguftool compat``: which llama.cpp loads a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gguftool.cli.builds import build_options
from gguftool.cli.options import Session, command, format_option, model_argument, pass_session

if TYPE_CHECKING:
    from gguftool.hub.repo import Collection


@command(
    examples="""
    gguftool compat model.gguf                          what it needs, and which builds load it
    gguftool compat model.gguf --build b8179            will that build load it?
    gguftool compat model.gguf --llama-cpp /opt/llama.cpp
    gguftool compat model.gguf --llama-cpp-python 0.3.9
    gguftool compat hf://owner/repo:Q4_K_M --build b8179 --format json
    gguftool compat hf://owner/repo                     each of its quantisations
    """
)
@model_argument
@build_options
@format_option("text", "json")
@pass_session
def compat(
    session: Session, /, model: str, build: str | None, llama_cpp: str | None, llama_cpp_python: str | None
) -> int:
    """Show which builds of llama.cpp load MODEL: what it needs, who ships that, and what a build at hand does with it.

    Only the header is read. Exit code 1 when the build that is asked about, or without one the newest that is known,
    refuses the file, 3 for a file that cannot be read as GGUF to the end of its header. Of a repository or a folder
    with several models each is a row.
    """
    from gguftool.api.compat import compat as look
    from gguftool.cli.opened import open_for
    from gguftool.hub.meant import meant
    from gguftool.model.unreadable import unreadable
    from gguftool.report import compat as report
    from gguftool.report.envelope import error_row
    from gguftool.report.text import safe

    there = meant(model)
    if not isinstance(there, str):
        return _all(session, there, build, llama_cpp, llama_cpp_python)
    with open_for(session, there, strict=False) as m:
        found = look(m, build=build, llama_cpp=llama_cpp, llama_cpp_python=llama_cpp_python)
        broken = unreadable(m)
    for text in found.asked.notes if found.asked is not None else ():
        session.note(f"note: {safe(text)}")
    if session.format == "json":
        errors = [error_row(broken)] if broken is not None else []
        session.write_json(ok=found.ok and not errors, body=report.json_body(found), errors=errors)
    else:
        session.out("\n".join(report.text(found, session.style, verbose=session.verbose)))
        if broken is not None:
            session.note(f"error: {safe(str(broken))}")
    return broken.exit_code if broken is not None else 0 if found.ok else 1


def _all(
    session: Session, there: Collection, build: str | None, llama_cpp: str | None, llama_cpp_python: str | None
) -> int:
    from gguftool.api.compat import compat_all
    from gguftool.report import compat as report
    from gguftool.report.envelope import error_row

    rows = list(compat_all(there, build=build, llama_cpp=llama_cpp, llama_cpp_python=llama_cpp_python))
    code = max(x.exit_code for x in rows)
    if session.format == "json":
        errors = [error_row(x.error) for x in rows if x.error is not None]
        session.write_json(ok=code == 0, body=report.all_json(there.spec, rows), errors=errors)
    else:
        session.out("\n".join(report.all_text(there.spec, rows, session.style)))
    return code
