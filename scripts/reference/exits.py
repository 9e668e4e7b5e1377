"""docs/reference/exit-codes.md, out of the errors of gguftool, which own their codes."""

from __future__ import annotations

import inspect

from kept import DOCS, keep, prose, table

PAGE = DOCS / "reference" / "exit-codes.md"
HEAD = """# Exit codes

Made from `gguftool/errors.py` by `./dev docs`; a test keeps it in step.

"""
FINE = (
    ("0", "fine"),
    (
        "1",
        "findings at or above `--fail-on`; `verify`, `diff` and `check-log` found a difference, "
        "`convert` and `prepare` a fault in what they made",
    ),
)
CODES = (
    *FINE,
    ("2", "wrong usage, or a configuration that is none"),
    ("3", "not readable as GGUF; the message says what it is instead"),
    ("4", "refused for safety; the message says the way on"),
    ("5", "not enough disk or memory"),
    ("6", "another program or the network failed, or is missing"),
    ("7", "an interrupted or damaged edit stands in the way; the message says what to type"),
    ("70", "a bug in gguftool; GGUFTOOL_DEBUG=1 shows its traceback"),
    ("129, 130, 143", "ended by SIGHUP, Ctrl-C, SIGTERM: 128 and the signal's number; what was begun is taken back"),
)
TAIL = """
`fix` of several models ends with the worst of their codes. With `--format json` the object is printed whatever the
code; its `errors` hold `code`, the word of the table below, `message` and `hint`.

## Errors of the library

Every error is a `gguftool.GgufToolError`; `exit_code` is what the command ends with, `code` the word in JSON.

"""


def page() -> str:
    """The page as it should be."""
    from gguftool import errors

    def below(cls: type[errors.GgufToolError]) -> list[type[errors.GgufToolError]]:
        return [cls, *(deeper for one in cls.__subclasses__() for deeper in below(one))]

    rows = [
        (f"`{cls.__name__}`", f"`{cls.code}`", str(cls.exit_code), prose(inspect.getdoc(cls).split("\n\n")[0]))
        for cls in sorted(below(errors.GgufToolError), key=lambda cls: (cls.exit_code, cls.__name__))
        if cls.__module__ == "gguftool.errors"
    ]
    return (
        HEAD + table("code", "meaning", rows=list(CODES)) + TAIL + table("class", "`code`", "exit", "when", rows=rows)
    )


if __name__ == "__main__":
    keep({PAGE: page()})
