"""Commands of llama.cpp's other programs: checked against their own options, not turned into those of llama-server."""

from __future__ import annotations

from gguftool.build.ftypes import ALIASES, TARGETS, is_target
from gguftool.errors import UsageError
from gguftool.near import near_names
from gguftool.quantity import is_number
from gguftool.records import dataclass
from gguftool.run.flags import normal, substitutes
from gguftool.run.translation import options
from gguftool.run.translation.result import Work
from gguftool.run.translation.server import ENDS
from gguftool.shell import Expands


@dataclass(frozen=True, slots=True)
class Shape:
    """How the words of a program that parses them itself must stand.

    Attributes:
        least, most: how many words without an option it takes.
        first: options are only read before them.
        what: what these are, for people.
    """

    least: int = 0
    most: int = 0
    first: bool = False
    what: str = ""


OWN = {
    "llama-quantize": Shape(2, 4, True, "IN [OUT] TYPE [THREADS]"),
    "llama-gguf-split": Shape(2, 2, True, "IN OUT"),
    "llama-gguf-hash": Shape(1, 1, True, "FILE"),
    "llama-bench": Shape(),
    "ggml-rpc-server": Shape(),
    "llama-simple": Shape(0, 99, False, "PROMPT"),
    "llama-simple-chat": Shape(),
    "llama-convert-llama2c-to-ggml": Shape(),
    "llama-lookup-merge": Shape(2, 99, False, "IN… OUT"),
}
"""Programs that do not use `common/arg.cpp`; all others take no word without an option (b11434)."""
SERVED = {
    "llama-quantize": "`gguftool quantize` does the same, with or without it",
    "llama-gguf-split": "`gguftool split` and `gguftool merge` do the same, and check every read",
    "llama-gguf-hash": "`gguftool hash --format gguf-hash` prints the same",
    "llama-perplexity": "`gguftool quant-test` compares quantisations by it, `gguftool kv-test` cache types",
    "llama-fit-params": "`gguftool plan` computes the same, and shows why",
    "llama-tokenize": "`gguftool render --tokens` shows the tokens of a conversation",
    "llama-export-lora": "",
    "ggml-rpc-server": "`gguftool launch MODEL --rpc HOST:PORT` uses it",
    "llama-download": "hf://OWNER/REPO/FILE names a model where it lies",
}
"""What gguftool has for the same."""


def check(w: Work) -> None:
    """Take the words of one of llama.cpp's other programs.

    Raises:
        UsageError: what is left is no command of it.
    """
    shape = OWN.get(w.program)
    if shape is None:
        options.every(w)
        if not options.model_of(w) and not {normal(a) for a in w.args} & (ENDS | {"--server-base"}):
            raise UsageError(f"{w.program} does not start without a model", "add -m MODEL")
    else:
        alone: list[str] = []
        moved = False
        while w.words:
            moved |= _one(w, alone)
        if moved and shape.first:
            w.change("", "", f"{w.program} reads options only before {shape.what}: they stand there now")
        _alone(w, shape, alone)
    if told := SERVED.get(w.program):
        w.notes.append(told)


def _one(w: Work, alone: list[str]) -> bool:
    """One word of a program that parses them itself; whether it is an option behind a word without one."""
    given = w.words[0]
    if not given.startswith("-") or is_number(given) or given == "-":
        alone.append(w.words.pop(0))
        return False
    name = normal(given.partition("=")[0])
    option = w.build.by_name.get(name)
    if option is not None and "=" not in given and option.names[0] not in ("-fa", "-ctk", "-ctv"):
        w.words.pop(0)
        w.args.append(given)
        if option.value:
            if not w.words:
                w.args.pop()
                w.change(given, "", "takes a value, and none was given", lost=True)
                return False
            w.args.append(w.words.pop(0))
        return bool(alone)
    if option is not None and option.names[0] in ("-ctk", "-ctv") and len(w.words) > 1:
        w.words.pop(0)
        value = w.words.pop(0)
        types = [options.cache_type(w, given, part) for part in value.split(",")]
        w.args += [given, ",".join(types)]
        return bool(alone)
    if w.program == "llama-bench" and given in ("-mmp", "--mmap") and len(w.words) > 1:
        _mapped(w)
        return bool(alone)
    if option is None and name not in substitutes():
        # What follows may be its value or the file: nobody knows.
        w.words.pop(0)
        w.change(given, "", f"{w.program} has no such option", lost=True)
        return False
    options.word(w)
    return bool(alone)


def _mapped(w: Work) -> None:
    """``-mmp 0``, which is a value of ``-lm`` since 2026."""
    was = f"{w.words.pop(0)} {w.words[0]}"
    modes = ",".join("none" if part == "0" else "mmap" for part in w.words.pop(0).split(","))
    w.args += ["-lm", modes]
    w.change(was, f"-lm {modes}", "Replaced by --load-mode in 2026.")


def _alone(w: Work, shape: Shape, alone: list[str]) -> None:
    if {normal(a) for a in w.args} & {"-h", "--help", "--version", "--list-devices"}:
        return
    if w.program == "llama-quantize":
        _quantize(w, alone)
    elif len(alone) < shape.least:
        raise UsageError(f"{w.program} needs {shape.what}", f"{w.program} --help lists what it takes")
    for word in alone[shape.most :]:
        w.change(word, "", f"{w.program} takes " + (shape.what or "no arguments without an option"), lost=True)
    w.args += alone[: shape.most]


def _quantize(w: Work, alone: list[str]) -> None:
    """IN [OUT] TYPE [THREADS] (`quantize.cpp:llama_quantize`, b11434)."""
    at = next((i for i, x in enumerate(alone) if i and _type(x)), None)
    if at in (1, 2):
        return
    if any(isinstance(x, Expands) for x in alone[1:3]):
        w.notes.append("the type is what a shell puts there: it was not checked")
        return
    said = alone[2] if len(alone) > 2 else alone[1] if len(alone) == 2 and "." not in alone[1] else ""
    if len(alone) < 2 or not said:
        raise UsageError("llama-quantize needs IN [OUT] TYPE", "`gguftool quantize --list MODEL` shows the types")
    upper = said.upper()
    meant = next(
        (x for x in (upper.removeprefix("UD-"), upper.removeprefix("UD-").removesuffix("_XL") + "_M") if is_target(x)),
        "",
    )
    near = [meant] if meant else near_names(upper, [*TARGETS, *ALIASES])
    mixture = ": UD- and _XL are mixtures of others" if "UD" in upper or "XL" in upper else ""
    guess = f"; the nearest is {near[0]}" if near else ""
    raise UsageError(
        f"llama-quantize has no type {said}{mixture}{guess}", "`gguftool quantize --list MODEL` shows the types"
    )


def _type(text: str) -> bool:
    return is_target(text)
