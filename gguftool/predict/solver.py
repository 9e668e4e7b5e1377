"""Which number keys are wrong, with the tensors as witness: the smallest changes under which everything agrees.

The search follows the first disagreement (a shape, a missing layer, an assertion): every reading must change a key that
it depends on, so only those are tried, then those that the next disagreement depends on. All readings of up to
`MOST_KEYS` keys are found; one that stands alone is right whenever no more keys than that are wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gguftool.brief import short_repr
from gguftool.facts.keys import read_keys
from gguftool.format.header import Field
from gguftool.format.types import ARR
from gguftool.format.values import make_field
from gguftool.model import Model, with_header
from gguftool.predict.disagree import Fault, fault_of, granted
from gguftool.predict.shown import Shown, shown_by
from gguftool.predict.surveyed import survey
from gguftool.records import dataclass, field, replace

MOST_KEYS = 2
MOST_WORK = 40_000
"""Tensors asked for in all trials together, and `TRIAL` for each: bounds the search on large models (about 1 s)."""
TRIAL = 40
PAIR = ("attention.key_length", "attention.value_length")
"""Absent together, they are one change: the head size."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One change of keys under which the tensors and the keys agree.

    Attributes:
        changes: whole key and value of each.
        moves: how many faults it takes for granted; a head size that stands in two keys counts once.
    """

    changes: tuple[tuple[str, int], ...]
    moves: int

    __repr__ = short_repr

    @property
    def keys(self) -> frozenset[str]:
        """The keys it changes."""
        return frozenset(key for key, _ in self.changes)


@dataclass(frozen=True, slots=True)
class Solution:
    """What the tensors say of the keys.

    Attributes:
        fault: the first disagreement; "" when there is none.
        place: ``tensor:NAME`` or ``field:KEY`` where it shows.
        readings: fewest changes first; empty when no change of few keys explains the file.
        whole: all changes of up to `MOST_KEYS` keys were tried.
        hopeless: a tensor is missing or unknown, too, which no key can help.
    """

    fault: str
    place: str = ""
    readings: tuple[Reading, ...] = ()
    whole: bool = True
    hopeless: bool = False

    __repr__ = short_repr

    @property
    def proved(self) -> Reading | None:
        """The reading that nothing competes with."""
        return self.readings[0] if len(self.readings) == 1 and self.whole else None

    @property
    def likely(self) -> Reading | None:
        """The one reading of fewest changes, unless it only bends a rotation that no tensor shows."""
        if not self.readings:
            return None
        first, rest = self.readings[0], self.readings[1:]
        if all(".rope.dimension_count" in key for key in first.keys):
            return None
        if rest and rest[0].moves == first.moves:
            return None
        return first


@dataclass(slots=True)
class _Search:
    model: Model
    shown: Shown
    fields: Mapping[str, Field]
    forgiven: frozenset[str] = frozenset()
    found: dict[tuple[tuple[str, int], ...], int] = field(default_factory=dict)
    seen: dict[frozenset[tuple[str, int]], Fault | None] = field(default_factory=dict)
    work: int = 0

    def trial(self, changes: dict[str, int]) -> Fault | None:
        """The first disagreement after these changes."""
        mark = frozenset(changes.items())
        if mark not in self.seen:
            fault, asked = fault_of(_changed(self.model, self.fields, changes), self.shown, self.forgiven)
            self.work += TRIAL + asked
            self.seen[mark] = fault
        return self.seen[mark]

    def full(self) -> bool:
        return self.work > MOST_WORK


def solve(model: Model) -> Solution:
    """The readings under which the keys and the tensors of a model agree; the cost is that of a few hundred trials."""
    if model.missing_shards or not model.header.complete or granted(model) is None:
        return Solution("")
    shown = shown_by(model)
    search = _Search(model, shown, model.fields)
    root = search.trial({})
    if root is None:
        return Solution("")
    _follow(search, {}, root, 0)
    lost = frozenset[str]()
    if not search.found and not search.full():
        # No key makes these tensors come back: what else is wrong?
        seen = survey(model)
        lost = frozenset(f"tensor:{name}" for name in (*seen.missing, *seen.extra))
    if lost:
        search = _Search(model, shown, model.fields, lost, work=search.work)
        second = search.trial({})
        if second is None:
            return Solution(root.text, root.place, hopeless=True)
        _follow(search, {}, second, 0)
        root = second
    readings = _smallest(Reading(c, moves) for c, moves in search.found.items() if _told(search, dict(c)))
    return Solution(root.text, root.place, readings, not search.full(), bool(lost))


def _told(search: _Search, changes: dict[str, int]) -> bool:
    """False for the width of a rotation that could as well be another one: no tensor shows it."""
    only = {key for key in changes if ".rope.dimension_count" in key}
    if only != set(changes):
        return True
    less = {key: value - 2 for key, value in changes.items()}
    return any(value < 2 for value in less.values()) or search.trial(less) is not None


def _follow(search: _Search, changes: dict[str, int], fault: Fault, depth: int) -> None:
    later: list[tuple[dict[str, int], Fault]] = []
    for move in _moves(search, changes, fault):
        new = {**changes, **move}
        after = search.trial(new)
        if after is None:
            mark = tuple(sorted(new.items()))
            search.found[mark] = min(depth + 1, search.found.get(mark, 99))
        elif depth + 1 < MOST_KEYS and (after.place != fault.place or after.rank > fault.rank):
            later.append((new, after))
        if search.full():
            return
    # What gets furthest first: the budget may end.
    for new, after in sorted(later, key=lambda item: item[1].rank, reverse=True):
        _follow(search, new, after, depth + 1)
        if search.full():
            return


def _moves(search: _Search, changes: dict[str, int], fault: Fault) -> Iterator[dict[str, int]]:
    """Changes of one key (or of the head size) that the fault may follow from."""
    arch = search.model.architecture
    for suffix in _suffixes(search, arch):
        key = f"{arch}.{suffix}"
        if key in changes:
            continue
        pair = suffix == PAIR[0] and not any(f"{arch}.{s}" in search.fields or f"{arch}.{s}" in changes for s in PAIR)
        now = _now(search, changes, key, suffix, fault)
        if now is None or fault.irrelevant(suffix):
            continue
        first, tried = True, {now}
        queue = list(_values(search.shown, suffix, now, fault))
        while queue:
            value = queue.pop(0)
            if value in tried or not 0 <= value < 1 << 31 or (value == 0 and suffix not in MAY_BE_0):
                continue
            tried.add(value)
            move = {key: value} | ({f"{arch}.{PAIR[1]}": value} if pair else {})
            after = search.trial({**changes, **move})
            if first and after is not None and after.same(fault):
                break  # the fault does not follow from this key
            if after is not None and first and after.place == fault.place:
                queue += fault.straight(now, value, after)
            first = False
            yield move


MAY_BE_0 = frozenset({"nextn_predict_layers", "leading_dense_block_count", "expert_count"})
SUFFIXES = (
    "block_count",
    "nextn_predict_layers",
    "leading_dense_block_count",
    "embedding_length",
    "feed_forward_length",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_count",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.key_length_mla",
    "attention.value_length_mla",
    "attention.key_length_swa",
    "attention.value_length_swa",
    "rope.dimension_count",
    "rope.dimension_count_swa",
    "attention.q_lora_rank",
    "attention.kv_lora_rank",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.group_count",
    "ssm.time_step_rank",
    "ssm.conv_kernel",
    "context_length",
    "vocab_size",
)
"""Keys whose values shapes can tell."""
ADDED = {"attention.key_length": "n_embd_head_k()", "attention.head_count_kv": "n_head_kv()"}
"""Keys that may be missing, and what llama.cpp computes with then."""


def _suffixes(search: _Search, arch: str) -> Iterator[str]:
    known = read_keys(arch)
    for suffix in SUFFIXES:
        if f"{arch}.{suffix}" in search.fields or (
            f"{arch}.{suffix}" in known and (suffix in ADDED or suffix in ("nextn_predict_layers", "expert_count"))
        ):
            yield suffix


def _now(search: _Search, changes: dict[str, int], key: str, suffix: str, fault: Fault) -> int | None:
    """The value that counts now."""
    f = search.fields.get(key)
    if f is None:
        if suffix in ADDED:
            return fault.named.get(ADDED[suffix])
        return 0
    value = None if f.type == ARR else f.told
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _values(shown: Shown, suffix: str, now: int, fault: Fault) -> Iterator[int]:
    """Values worth a trial: what makes the odd size come out, and what other tensors show."""
    for want, have in fault.sizes:
        for a, b in ((now * have, want), (now * want, have)):
            if b and a % b == 0:
                yield a // b
        yield have
    yield from shown.values(suffix, fault.named)
    if suffix.startswith("attention.head_count"):
        yield from (now // 2, now * 2)


def _changed(model: Model, fields: Mapping[str, Field], changes: dict[str, int]) -> Model:
    """The model with other numbers; no byte is rendered."""
    if not changes:
        return model
    header = model.parts[0].header
    left = dict(changes)
    out = []
    for f in header.fields:
        if f.key in left and fields.get(f.key) is f:
            out.append(make_field(f.key, f.type_name, left.pop(f.key), header.layout))
        else:
            out.append(f)
    out += [make_field(key, "u32", value, header.layout) for key, value in left.items()]
    return with_header(model, replace(header, fields=tuple(out)), model.parts[0].size)


def _smallest(readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """Without those that change more than another one does, and then the same."""
    all_ = sorted(readings, key=lambda r: (r.moves, len(r.changes), r.changes))
    out: list[Reading] = []
    for one in all_:
        if not any(set(other.changes) < set(one.changes) for other in out):
            out.append(one)
    return tuple(out)
