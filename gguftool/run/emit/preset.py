"""A section of ``models.ini``, which the router of llama-server reads (``--models-preset``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gguftool.errors import UsageError
from gguftool.records import replace
from gguftool.regex import regex
from gguftool.run.args import server_command
from gguftool.run.capabilities import Capabilities
from gguftool.run.emit.words import comment, title, utf8, which
from gguftool.run.launch import LaunchPlan
from gguftool.run.options.serving import DEFAULT_PORT
from gguftool.run.options.table import by_field, normal
from gguftool.run.wishes import Wishes
from gguftool.shell import shell

ROUTERS = ("host", "port", "api_key_file", "ssl_key_file", "ssl_cert_file", "api_prefix")
"""What is said to the router: it takes them from the sections, or gives its own (`server-models.cpp`, b11434)."""
_CANNOT = regex(r"[;#\r\n]|^\s|\s$")
"""What a value cannot hold (`preset.cpp:parse_ini_from_file`): it ends before a comment, and nothing quotes."""


def preset(plan: LaunchPlan, force: tuple[str, ...], image: str | None = None) -> str:
    """One section, with the command of the router in front of it.

    Raises:
        UsageError: something cannot be said in such a file.
    """
    return "\n".join((
        f"; A model of llama-server's router, started as: {comment(shell(router(plan.wishes)))}",
        "; Several such sections make one file. Nothing checks the model again: gguftool launch MODEL --print does.",
        f"; The options are spelled for {which(plan)}.",
        "version = 1",
        "",
        *section(plan, plan.wishes.alias or title(plan.model)),
        "",
    ))  # fmt: skip


def section(plan: LaunchPlan, called: str) -> list[str]:
    """The lines of one model.

    Raises:
        UsageError: something cannot be said in such a file.
    """
    if not called.isprintable() or "]" in called or called != called.strip() or called in ("*", "default"):
        raise UsageError(f"--alias {called!r}: cannot be the name of a section", "another --alias")
    build = plan.engine.build
    if build.spelling(("--models-preset",)) is None:
        raise UsageError("this llama-server has no --models-preset", "a newer llama.cpp, or --emit llama-swap")
    own = Wishes()
    served = replace(plan.wishes, alias=None, **{field: getattr(own, field) for field in ROUTERS})
    args = server_command(plan.model, served, build).args
    utf8(args)
    return [f"[{called}]", *(f"{key} = {value}" for key, value in _pairs(args, build) if key not in ("host", "port"))]


def router(w: Wishes, *more: str) -> list[str]:
    """The command of the router, with what is its own."""
    return ["llama-server", "--models-preset", "models.ini", *more, *_router(w)]


def _router(w: Wishes) -> Iterator[str]:
    for field in ROUTERS:
        value = getattr(w, field)
        if value is not None:
            yield by_field()[field].names[0]
            yield str(value or DEFAULT_PORT)


def _pairs(args: Sequence[str], build: Capabilities) -> list[tuple[str, str]]:
    """Arguments as keys and values; a switch is ``true``, also one that says no."""
    out: dict[str, str] = {}
    words = list(args)
    while words:
        word = words.pop(0)
        option = build.by_name[normal(word)]
        # The names of a switch say yes or no; those of other options mean the same.
        names = (word, *option.names) if option.value else (word,)
        key = next((n for n in names if n.startswith("--")), word).lstrip("-")
        if " " in option.value.strip():
            raise UsageError(f"{word} takes two values, which a preset cannot hold", "leave it out")
        value = words.pop(0) if option.value else "true"
        if _CANNOT.search(value):
            raise UsageError(
                f"{word} {value!r}: a preset holds no ; and no #, no line ends, and no blanks at either end",
                "another name, or --emit llama-swap",
            )
        if key in out:
            raise UsageError(f"{word} is said twice, and a preset holds it once", "say it once")
        out[key] = value
    return list(out.items())
