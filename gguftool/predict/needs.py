"""What a file asks of a build of llama.cpp: the names in it that not every build knows, and since when each is known.

Only names are compared, with the timeline of the builds that were looked at (`gguftool.facts.timeline`). A build that
has all of them may refuse the file for another reason; `predict` of that build says so.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from gguftool.brief import short_repr
from gguftool.facts import NUMBER, llama_cpp, timeline
from gguftool.facts.data import load
from gguftool.facts.machine.rows import has_program
from gguftool.facts.reads import reads
from gguftool.format.types import TENSOR_TYPE_BY_NAME, tensor_type_name
from gguftool.model import Model
from gguftool.model.role import ROLES, role
from gguftool.model.vocab import KINDS
from gguftool.records import dataclass

ARCH, TOKENIZER, PRE, TYPE, PROJECTOR = "architecture", "tokenizer_model", "pre_tokenizer", "tensor_type", "projector"
TEMPLATE = "template_engine"
KEY, TENSOR, LOADED, CODE = "key", "tensor_name", "loaded_architecture", "loading_code"
SIDE = "side_file"
WORDS = {
    ARCH: "architecture", TOKENIZER: "tokenizer model", PRE: "pre-tokenizer", TYPE: "tensor type",
    PROJECTOR: "projector type", KEY: "key", TENSOR: "tensor", CODE: "code for its",
    TEMPLATE: "template engine", SIDE: "GGUF for",
}  # fmt: skip
"""Kinds of the timeline that files ask for, and what people call them."""
REFUSING = (ARCH, TOKENIZER, PRE, TYPE, PROJECTOR, CODE, SIDE)
"""A build that does not know such a name refuses the file."""
LONG_TEMPLATE = 64_000
"""A chat template of so many characters ends llama-server at its start where the engine before `jinja` reads it: it did
with b4798 and b7551, and does no more with b8672."""
_SIDES = {
    "adapter": ("adapters", "key", "adapter.type"),
    "control-vector": ("control vectors", "option", "--control-vector"),
    "imatrix": ("importance matrices", "", ""),
}
"""Role -> what such files are called, and the kind and name in the timeline that came with reading them as GGUF."""
IMATRIX = (5942, 5941)
"""First build that reads importance matrices in GGUF, and the last that does not (`quantize.cpp:load_imatrix`)."""


@dataclass(frozen=True, slots=True)
class Need:
    """One name that a build must know.

    Attributes:
        kind: of the timeline: ``architecture``, ``tensor_type`` …
        name: the name.
        since: first build it was seen in; None: it was seen in none.
        not_in: last older build that was seen without it; None: the oldest that was looked at has it.
        gone: first build without it after that; None: the newest has it.
        last: last build seen with it, where it went.
        evidence: what was looked at.
        where: ``field:KEY``, ``tensor:NAME`` or ``file``.
    """

    kind: str
    name: str
    since: int | None
    not_in: int | None = None
    gone: int | None = None
    last: int | None = None
    evidence: str = ""
    where: str = "file"

    __repr__ = short_repr

    @property
    def what(self) -> str:
        """The name with its kind, for people: ``architecture gemma4``."""
        return f"{WORDS[self.kind]} {self.name}"

    @property
    def refuses(self) -> bool:
        """A build without it refuses the file; False: it loads it, and does not look at this."""
        return self.kind in REFUSING

    @property
    def always(self) -> bool:
        """Every build that was looked at has it."""
        return self.since is not None and self.not_in is None and self.gone is None

    def there(self, build: int) -> bool | None:
        """Whether a build knows it; None: no build near enough was looked at."""
        if self.since is None:
            return False if build <= timeline.newest() else None
        if self.gone is not None and build >= self.gone:
            return False
        if build >= self.since:
            return True if self.last is None or build <= self.last else None
        return False if self.not_in is not None and build <= self.not_in else None


def needs(model: Model, *, ignored: bool = False) -> tuple[Need, ...]:
    """What the file asks for, by kind, what no build may lack first.

    Args:
        model: opened with ``strict=False``.
        ignored: also what older builds load without, and do not look at: keys and tensors that came later.
    """
    found = [_need(kind, name, where) for kind, name, where in dict.fromkeys(_refusing(model))]
    if ignored:
        found += _ignored(model, {(n.kind, n.name) for n in found})
    return tuple(found)


def newest_of(needs: Iterable[Need]) -> int | None:
    """The first build that knows all of it; None: no build does, or every one."""
    known = [n.since for n in needs if n.refuses and not n.always]
    return None if None in known else max((since for since in known if since is not None), default=None)


def _need(kind: str, name: str, where: str) -> Need:
    if kind == SIDE:
        return _side(name, where)
    # Some architectures had a name long before there was code that loads them.
    found = timeline.interval(LOADED if kind == ARCH and name != "clip" else kind, name)
    if found is None:
        # The facts may be of a newer build than the last that the timeline has read.
        since = NUMBER if timeline.newest() < NUMBER and _in_facts(kind, name) else None
        return Need(kind, name, since, timeline.newest(), evidence="facts" if since else "", where=where)
    return Need(kind, name, found.since, found.not_in, found.gone, found.last, found.evidence, where)


def _side(name: str, where: str) -> Need:
    """Since when such files are read as GGUF."""
    kind, of = next((kind, of) for called, kind, of in _SIDES.values() if called == name)
    found = timeline.interval(kind, of) if of else timeline.Interval(*IMATRIX, None, None, "sources")
    if found is None:
        return Need(SIDE, name, None, timeline.newest(), where=where)
    return Need(SIDE, name, found.since, found.not_in, found.gone, found.last, found.evidence, where)


def _in_facts(kind: str, name: str) -> bool:
    """Whether the build that the facts are of knows a name."""
    if kind == ARCH:
        return has_program(name)
    if kind == PROJECTOR:
        from gguftool.facts.machine.clip import type_number

        return type_number(name) is not None
    known: dict[str, Container[str]] = {TOKENIZER: KINDS, TYPE: TENSOR_TYPE_BY_NAME}
    return name in known.get(kind, load("vocabulary.json")["pre"])


def _refusing(m: Model) -> Iterator[tuple[str, str, str]]:
    """Kind, name and place of what a loader compares with its lists."""
    own = role(m)
    if own == "mmproj":
        from gguftool.facts.machine.clip import ENCODERS
        from gguftool.model.projector import named_type

        for modality, (has, *_) in ENCODERS.items():
            name, key = named_type(m, modality)
            if name and m.get(has) is True:
                yield PROJECTOR, name, f"field:{key}"
    elif ROLES[own].loads or own in ("vocab", "foreign", "image", "audio"):
        name = m.architecture.partition("\0")[0]
        if name:
            yield ARCH, name, "field:general.architecture"
        tokenizer, pre = m.get("tokenizer.ggml.model"), m.get("tokenizer.ggml.pre")
        if isinstance(tokenizer, str):
            yield TOKENIZER, tokenizer.partition("\0")[0], "field:tokenizer.ggml.model"
        if isinstance(pre, str) and pre and tokenizer == "gpt2":
            yield PRE, pre.partition("\0")[0], "field:tokenizer.ggml.pre"
    elif own in _SIDES:
        yield SIDE, _SIDES[own][0], "field:general.type"
        if m.architecture and own == "adapter":
            yield ARCH, m.architecture.partition("\0")[0], "field:general.architecture"
    first: dict[int, str] = {}
    for tensor in m.all_tensors():
        first.setdefault(tensor.info.type_id, tensor.name)
    for number, name in sorted(first.items()):
        yield TYPE, tensor_type_name(number), f"tensor:{name}"


def _ignored(m: Model, told: set[tuple[str, str]]) -> Iterator[Need]:
    """Keys and tensors that came to llama.cpp later than what refuses."""
    arch = m.architecture.partition("\0")[0]
    since = timeline.interval(ARCH, arch)
    floor = since.since if since is not None else 0
    read = {r.removeprefix("=") if r.startswith("=") else f"{arch}.{r}" for r in reads(arch)}
    asked = [(KEY, key, f"field:{key}") for key in m.fields if key in read or key.startswith("tokenizer.ggml.")]
    names: dict[str, str] = {}
    for tensor in m.all_tensors():
        parts = tensor.name.split(".")
        parts[1:-1] = ["%d" if x.isdecimal() else x for x in parts[1:-1]]
        names.setdefault(".".join(parts).removesuffix(".weight").removesuffix(".bias"), tensor.name)
    template = m.get("tokenizer.chat_template")
    if isinstance(template, str) and len(template) >= LONG_TEMPLATE:
        asked.append((TEMPLATE, "jinja", "field:tokenizer.chat_template"))
    asked += [(TENSOR, name, f"tensor:{of}") for name, of in names.items()]
    for kind, name, where in asked:
        found = timeline.interval(kind, name)
        if found is None or (kind, name) in told:
            continue
        if found.gone is not None or (found.not_in is not None and found.since > floor):
            yield Need(kind, name, found.since, found.not_in, found.gone, found.last, found.evidence, where)


def sentence(found: Iterable[Need]) -> str:
    """``needs llama.cpp b9842 or newer (architecture gemma4)``; "" where every build will do."""
    asked = [n for n in found if n.refuses and not n.always]
    if not asked:
        return ""
    if missing := [n.what for n in asked if n.since is None]:
        return f"needs what no llama.cpp up to b{timeline.newest()} has: {', '.join(missing)}"
    first = max(n.since or 0 for n in asked)
    ends = [n.last for n in asked if n.last is not None]
    if ends and min(ends) < first:
        return "needs what no one llama.cpp has: " + ", ".join(f"{n.what} ({_span(n)})" for n in asked)
    # What comes first is why; the rest is known to older builds, too.
    asked.sort(key=lambda n: -(n.since or 0))
    why = "; ".join(n.what if n.since == first and n.last is None else f"{n.what} {_span(n)}" for n in asked)
    last = f"to b{min(ends)}" if ends else "or newer"
    if not any(n.not_in is not None for n in asked):
        return f"needs llama.cpp b{min(ends)} or older ({why})"
    return f"needs {llama_cpp(first)} {last} ({why})"


def _span(n: Need) -> str:
    begun = f"since b{n.since}" if n.not_in is not None else ""
    ended = f"until b{n.last}" if n.last is not None else ""
    return " ".join(x for x in (begun, ended) if x)
