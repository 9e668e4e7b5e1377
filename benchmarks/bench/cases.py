"""The rows of the table: commands of gguftool, the goals they are held to, and what they are compared with."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.bench.measure import OURS, Case

CLICK, PASS = "import click", "python -c pass"
OPENSSL = "openssl dgst -sha256"
GROUPS = {
    "start": "what people and hooks call all day, on a model with 262,144 tokens",
    "hash": "sha256 of a file, and of every tensor",
    "quantize": "F16 to four types, beside llama.cpp's own quantiser",
    "copy": "merge and split, beside cp and llama-gguf-split",
    "peers": "other programs at the same work",
    "curves": "the same commands on ever larger made files",
}
QUANTIZE_START = "quantize of a small file"
"""What of a quantisation no thread shortens: the start, the plan, the end."""
NOTHING = ("hash of a small file", "openssl of a small file")
KEY, VALUE = "gemma3.context_length", "16384"
TYPES = ("Q8_0", "Q4_K_M", "Q6_K", "IQ4_XS")


@dataclass(frozen=True, slots=True)
class Goal:
    """A row costs at most ``most``.

    Attributes:
        case: the row.
        most: times the processor time of ``base``, or MiB where there is no base.
        base: the row it is divided by.
        less: rows whose time is taken off first: the case and the base with nothing to do.
        what: ``cpu``; or ``wall``, the clock, which is judged only while the base has a processor for itself.
    """

    case: str
    most: float
    base: str = CLICK
    less: tuple[str, str] | None = None
    what: str = "cpu"

    @property
    def title(self) -> str:
        """The row, and what of it when it is not processor time."""
        return self.case + ("" if self.base and self.what == "cpu" else ", clock" if self.base else ", peak memory")


GOALS = (
    Goal("--version", 0.6),
    Goal("--help", 1.2),
    Goal("dump", 1.7),
    Goal("lint", 3.2),
    Goal("lint", 45, base=""),
    Goal("fix --set", 2.3),
    Goal("fix, new key", 2.3),
    Goal("plan", 2.0),
    Goal("verify", 2.0),
    Goal("diff", 2.0),
    Goal("undo", 2.0),
    Goal("launch --print", 3.5),
    Goal("explain", 2.0),
    Goal("rules", 2.0),
    Goal("compat", 2.0),
    Goal("check-log", 2.0),
    Goal("hash", 1.05, OPENSSL, NOTHING),
    Goal("hash --tensors", 1.6, OPENSSL, NOTHING, "wall"),
    Goal("hash --tensors", 2.05, OPENSSL, NOTHING),
    Goal("hash --tensors --algorithm xxh64", 1.6, OPENSSL, NOTHING),
    *(Goal(f"quantize {kind}", 1.0, f"llama-quantize {kind}") for kind in TYPES),
)
"""Commands that hash are judged without their start: openssl's is 5 ms, Python's alone 15. A file and every tensor is
the same bytes twice: 2 by arithmetic with sha256 on one processor, 1.6 by the clock where two are free."""


def _ours(name: str, group: str, *words: str, needs: tuple[str, ...] = (), **more: object) -> Case:
    return Case(name, group, (OURS, *words), needs=("start", *needs), **more)  # type: ignore[arg-type]


def start() -> list[Case]:
    """Each command of the goals, and the two that they are measured with."""
    python = "{python}"
    editing = {"fresh": True, "needs": ("header",)}
    was_set = (OURS, "fix", "--yes", "--set", f"{KEY}={VALUE}", "{copy}")
    return [
        Case(PASS, "start", (python, "-c", "pass")),
        Case(CLICK, "start", (python, "-c", "import click"), needs=("start",)),
        _ours("--version", "start", "--version"),
        _ours("--help", "start", "--help"),
        _ours("dump", "start", "dump", "{model}", needs=("header",)),
        _ours("lint", "start", "lint", "--exit-zero", "{model}", needs=("header",)),
        _ours("lint, one token changed", "start", "lint", "--exit-zero", "{tuned}", needs=("header",)),
        _ours("fix --set", "start", *was_set[1:], **editing),  # type: ignore[arg-type]
        _ours("fix, new key", "start", "fix", "--yes", "--set", "my.key:str=hello", "{copy}", **editing),  # type: ignore[arg-type]
        _ours("undo", "start", "undo", "{copy}", before=(was_set,), **editing),  # type: ignore[arg-type]
        _ours("plan", "start", "plan", "{model}", needs=("header",)),
        _ours("verify", "start", "verify", "{model}", needs=("header",)),
        _ours("diff", "start", "diff", "{model}", "{other}", needs=("header", "header"), exits=(0, 1)),
        _ours("launch --print", "start", "launch", "--print", "{model}", needs=("header",)),
        _ours("explain", "start", "explain", "context_length"),
        _ours("rules", "start", "rules"),
        _ours("compat", "start", "compat", "{model}", needs=("header",)),
        _ours("check-log", "start", "check-log", "{log}", exits=(0, 1)),
    ]


def hashes(openssl: bool) -> list[Case]:
    """Hashes of a whole file, and what starting costs."""
    found = [
        _ours("hash", "hash", "hash", "{model}", needs=("sha256",)),
        _ours("hash --tensors", "hash", "hash", "--tensors", "{model}", needs=("sha256", "sha256")),
        _ours("hash --tensors --algorithm xxh64", "hash", "hash", "--tensors", "--algorithm", "xxh64", "{model}",
              needs=("sha256", "data")),
        _ours("verify --data", "hash", "verify", "--data", "{model}", needs=("data",)),
        _ours("hash of a small file", "hash", "hash", "{small}"),
    ]  # fmt: skip
    if openssl:
        found.append(Case(OPENSSL, "hash", ("openssl", "dgst", "-sha256", "{model}"), beside="hash"))
        found.append(Case("openssl of a small file", "hash", ("openssl", "dgst", "-sha256", "{small}"),
                          beside="hash of a small file"))  # fmt: skip
    return found


def quantize(program: str | None) -> list[Case]:
    """Each type by the built-in engine with all processors and with one, and by llama.cpp."""
    found = []
    for kind in TYPES:
        words = ("-q", "quantize", "{f16}", "{out}/out.gguf", kind, "--engine", "builtin", "--no-provenance")
        found.append(_ours(f"quantize {kind}", "quantize", *words, needs=("f16", f"write {kind}")))
        if program:
            theirs = (program, "{f16}", "{out}/out.gguf", kind, "{cores}")
            found.append(Case(f"llama-quantize {kind}", "quantize", theirs, beside=f"quantize {kind}"))
        found.append(
            _ours(one_thread(f"quantize {kind}"), "quantize", *words, "--threads", "1", beside=f"quantize {kind}")
        )
    small = ("-q", "quantize", "{small}", "{out}/out.gguf", TYPES[0], "--engine", "builtin", "--no-provenance")
    return [*found, _ours(QUANTIZE_START, "quantize", *small)]


def one_thread(name: str) -> str:
    """The row of the same work without threads."""
    return f"{name}, 1 thread"


def copy(program: str | None) -> list[Case]:
    """A set joined and a file taken apart, beside programs that copy the same bytes."""
    found = [
        _ours("merge", "copy", "merge", "{shard}", "-o", "{out}/whole.gguf", needs=("header", "copy")),
        Case("cp", "copy", ("cp", "{model}", "{out}/copy.gguf"), beside="merge"),
        _ours("split", "copy", "split", "{model}", "--max-tensors", "60", "-o", "{out}/part", needs=("header", "copy")),
    ]
    if program:
        merged = (program, "--merge", "{shard}", "{out}/whole.gguf")
        divided = (program, "--split", "--split-max-tensors", "60", "{model}", "{out}/part")
        found.insert(2, Case("llama-gguf-split --merge", "copy", merged, beside="merge"))
        found.append(Case("llama-gguf-split --split", "copy", divided, beside="split"))
    return found
