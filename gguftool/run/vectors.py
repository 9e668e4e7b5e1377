"""Real requests to a server that gives embeddings or ranks: are the answers what was planned?

Everything is judged by what the answers are: as many numbers as the model has, finite, as long as asked, another vector
for another text and the same one for the same, and a text as long as one graph takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gguftool.model.embedder import Embedder
from gguftool.records import dataclass
from gguftool.run.embedding import way
from gguftool.run.launch import LaunchPlan
from gguftool.run.proof import Check
from gguftool.run.reference import cosine_checks
from gguftool.run.server import Answer, Running, ask

TEXTS = ("What is the capital of France?", "Bananas are yellow.")
"""Two texts that no model should take for one."""
QUERY = "What is the capital of France?"
DOCUMENTS = (
    "Bananas are yellow.",
    "The capital of France is Paris.",
    "The engine of this car needs oil.",
)
BEST = 1
"""The document that answers."""
ALIKE = 1e-3
"""Vectors of length 1 that are no further apart count as one; two texts of a sound model are, by far."""
SAME = 1e-2
"""The same text in another batch: kernels add in another order."""
SECONDS = 300.0
WORK = 2 << 40
"""Bytes of weights times tokens that the long text may take: minutes on a slow processor."""
FEWEST = 600
"""Tokens of the long text all the same: more than a graph of llama.cpp's default has."""


@dataclass(frozen=True, slots=True)
class _Said:
    """Vectors of an answer, one a text, or why there are none."""

    rows: list[list[float]]
    why: str = ""


def checks(running: Running, plan: LaunchPlan) -> list[Check]:
    """Ask for embeddings, or scores, and judge them; nothing for a model that writes."""
    e = plan.gives
    if e is None:
        return []
    if plan.wishes.rerank:
        return list(_ranks(running, plan, e))
    return list(_embeds(running, plan, e))


def _embeds(running: Running, plan: LaunchPlan, e: Embedder) -> Iterator[Check]:
    pooled = _pools(plan, e)
    said = _vectors(running, TEXTS, pooled=pooled)
    again = _vectors(running, TEXTS[:1], pooled=pooled)
    why = said.why or again.why
    if why or len(said.rows) != len(TEXTS) or len(again.rows) != 1:
        yield Check("embedding", "an answer", why or "not a vector a text", False, vital=True)
        return
    first, second = said.rows
    sizes = {len(row) for row in (*said.rows, *again.rows)}
    yield Check("embedding: numbers", e.width, sizes.pop() if len(sizes) == 1 else "not the same", sizes == set(), True)
    yield from _sound((*said.rows, *again.rows), "embedding")
    if not all(map(math.isfinite, (*first, *second, *again.rows[0]))) or len(first) != len(second):
        return
    if len(first) != e.width:
        return
    if pooled:
        yield from _length(first, plan.wishes.embd_normalize)
    apart = distance(first, second)
    yield Check("embedding: two texts differ", "yes", f"{apart:.4f} apart", apart > ALIKE, vital=True)
    if way(e, plan.wishes) == "last":
        yield _end(running, e)
    moved = distance(first, again.rows[0])
    yield Check("embedding: the same text again", "the same", f"{moved:.4f} apart", moved <= SAME)
    yield _long(running, plan, e, lambda text: _vectors(running, (text,), pooled=pooled))
    if plan.wishes.against is not None and pooled:
        yield from cosine_checks(plan, lambda texts: _vectors(running, texts, pooled=True).rows)


def _pools(plan: LaunchPlan, e: Embedder) -> bool:
    """Whether a text is to have one vector: also where the file forgot to say how, which nobody has asked for."""
    if way(e, plan.wishes) != "none":
        return True
    return not (plan.wishes.pooling or e.stated or e.token_by_token)


def _ranks(running: Running, plan: LaunchPlan, e: Embedder) -> Iterator[Check]:
    said, again = _scores(running, DOCUMENTS), _scores(running, DOCUMENTS)
    if said.why or len(said.rows) != len(DOCUMENTS):
        yield Check("ranking", "an answer", said.why or "not a score a document", False, vital=True)
        return
    scores = [row[0] for row in said.rows]
    head = ", ".join(name for name in e.head if name.endswith(".weight"))
    yield Check("ranking: head", "there", head or "none: the first number of a vector is taken", bool(head), vital=True)
    yield from _sound(said.rows, "ranking")
    if not all(map(math.isfinite, scores)):
        return
    apart = max(scores) - min(scores)
    scale = max(map(abs, scores)) or 1.0
    yield Check("ranking: scores differ", "yes", f"{apart:.3g} apart", apart > 1e-4 * scale, vital=True)
    best = max(range(len(scores)), key=scores.__getitem__)
    yield Check("ranking: best document", DOCUMENTS[BEST], DOCUMENTS[best], best == BEST, vital=True)
    if len(again.rows) == len(scores):
        moved = max(abs(a - b[0]) for a, b in zip(scores, again.rows, strict=True))
        yield Check("ranking: the same again", "the same", f"{moved:.3g} apart", moved <= SAME * max(1.0, scale))
    yield _long(running, plan, e, lambda text: _scores(running, (text,)), "ranking")


def _sound(rows: Sequence[Sequence[float]], what: str) -> Iterator[Check]:
    odd = sum(not math.isfinite(x) for row in rows for x in row)
    yield Check(f"{what}: finite", "yes", "yes" if not odd else f"{odd} numbers are not", not odd, vital=True)


def _length(row: Sequence[float], asked: int | None) -> Iterator[Check]:
    """How long a vector is, as `common.cpp:common_embd_normalize` (b11434) makes it."""
    kind = 2 if asked is None else asked
    if kind < 0:
        return
    if kind == 0:
        size, wanted = max(map(abs, row)), 32760.0
    else:
        size, wanted = sum(abs(x) ** kind for x in row) ** (1.0 / kind), 1.0
    name = {0: "largest number", 1: "sum", 2: "length"}.get(kind, f"{kind}-norm")
    yield Check(f"embedding: {name}", f"{wanted:g}", f"{size:.4f}", abs(size - wanted) <= 1e-3 * wanted, vital=True)


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    """How far the directions of two vectors are apart: 0 the same, 2 opposite; of a vector of zeros 0."""
    size_a, size_b = math.hypot(*a), math.hypot(*b)
    if not size_a or not size_b:
        return 0.0
    return math.hypot(*(x / size_a - y / size_b for x, y in zip(a, b, strict=True)))


def _end(running: Running, e: Embedder) -> Check:
    """Whether a text ends with a token that the server puts there: what pooling by the last token takes."""
    bare, dressed = (_tokens(running, TEXTS[0], special=special) for special in (False, True))
    there = bool(dressed) and bare[-1:] != dressed[-1:]
    # Of a family that is not known nobody says how it was trained.
    ok = None if not dressed or (not there and not e.ends) else there
    return Check("embedding: an end token behind a text", "yes", "yes" if there else "no", ok)


def _long(
    running: Running, plan: LaunchPlan, e: Embedder, give: Callable[[str], _Said], what: str = "embedding"
) -> Check:
    """A text nearly as long as one graph, or longer where it may be cut."""
    limit = _limit(plan, e) - (24 if what == "ranking" else 0)
    text, tokens = _text_of(running, limit)
    if not tokens:
        return Check(f"{what}: a long text", f"up to {limit} tokens", None, None)
    said = give(text)
    ok = not said.why and len(said.rows) == 1 and all(map(math.isfinite, said.rows[0]))
    return Check(f"{what}: a text of {tokens} tokens", "an answer", "an answer" if ok else said.why or "none", ok)


def _limit(plan: LaunchPlan, e: Embedder) -> int:
    c = plan.memory.cache.context
    graph = min(c.ubatch, c.batch)
    most = min(c.usable - 1, 2 * graph) if e.cuts(way(e, plan.wishes)) else min(c.usable, graph)
    heavy = WORK // max(1, plan.expected.weights_bytes or 1)
    return min(most, max(FEWEST, heavy))


def _text_of(running: Running, limit: int) -> tuple[str, int]:
    """A text of at most so many tokens, and nearly as many, with its number; ("", 0) when the server does not count."""
    words = TEXTS[1] + " "
    one = _count(running, words * 8)
    if not one:
        return "", 0
    times = max(1, limit * 8 // one)
    for _ in range(8):
        tokens = _count(running, words * times)
        if not tokens or tokens <= limit:
            return (words * times, tokens) if tokens else ("", 0)
        times = max(1, times - max(1, (tokens - limit) * times // tokens))
    return "", 0


def _count(running: Running, text: str) -> int:
    return len(_tokens(running, text, special=True))


def _tokens(running: Running, text: str, *, special: bool) -> list[Any]:
    """The tokens of a text as the server has them; [] when it does not tell."""
    answer = ask(running, "/tokenize", {"content": text, "add_special": special}, SECONDS)
    tokens = answer.body.get("tokens") if isinstance(answer.body, dict) else None
    return tokens if answer.status == 200 and isinstance(tokens, list) else []


def _vectors(running: Running, texts: Sequence[str], *, pooled: bool) -> _Said:
    """One vector a text; of a server that does not pool the first of each text."""
    answer = ask(running, "/v1/embeddings" if pooled else "/embedding", {"input": list(texts)}, SECONDS)
    rows = answer.body.get("data") if isinstance(answer.body, dict) else answer.body
    if answer.status != 200 or not isinstance(rows, list):
        return _Said([], _refusal(answer))
    out = []
    for entry in rows:
        row = entry.get("embedding") if isinstance(entry, dict) else None
        if isinstance(row, list) and row and isinstance(row[0], list):
            row = row[0]
        if not isinstance(row, list):
            return _Said([], "an answer without a vector")
        out.append([_number(x) for x in row])
    return _Said(out)


def _scores(running: Running, documents: Sequence[str]) -> _Said:
    """Scores in the order of the documents, one number each."""
    answer = ask(running, "/v1/rerank", {"query": QUERY, "documents": list(documents)}, SECONDS)
    found = answer.body.get("results") if isinstance(answer.body, dict) else None
    if answer.status != 200 or not isinstance(found, list):
        return _Said([], _refusal(answer))
    by_index = {r.get("index"): _number(r.get("relevance_score")) for r in found if isinstance(r, dict)}
    if set(by_index) != set(range(len(documents))):
        return _Said([], "not a score a document")
    return _Said([[by_index[i]] for i in range(len(documents))])


def _number(x: Any) -> float:
    # JSON has no NaN: a server writes null in its place.
    return float(x) if isinstance(x, int | float) and not isinstance(x, bool) else math.nan


def _refusal(answer: Answer) -> str:
    error = answer.body.get("error") if isinstance(answer.body, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return str(message) if message else f"no answer (HTTP {answer.status or 'connection closed'})"
