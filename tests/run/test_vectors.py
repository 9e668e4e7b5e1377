"""Launches of small embedding models and rerankers on the real llama-server, proven by real requests.

The models are made here, with weights whose answers are known: attention is even, so a vector is the mean of what the
words of a text are, and the words of the right document carry what the head looks for.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.build import GGUF, llama
from tests.embedders import RERANK, WIDE, bert, bert_reranker, qwen3, qwen3_reranker
from tests.run.conftest import checks, children

pytestmark = pytest.mark.real
RIGHT = ("▁capital", "▁france", "▁paris")


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def diagonal(scale: float = 1.0) -> bytes:
    return floats(*(scale if i == j else 0.0 for i in range(WIDE) for j in range(WIDE)))


def even(g: GGUF, *, alike: bool = False) -> GGUF:
    """Weights whose answers are known; ``alike``: every word is the same, so every text is."""
    tokens = next(e[1] for e in g._kv if isinstance(e, tuple) and e[0] == "tokenizer.ggml.tokens")
    rows = []
    for i, word in enumerate(tokens):  # type: ignore[arg-type,var-annotated]
        row = [((0 if alike else i * 37) + j * 17) % 23 / 23 - 0.5 for j in range(WIDE)]
        row[0] = 8.0 if word in RIGHT and not alike else 0.0
        rows += row
    g.retensor("token_embd.weight", data=floats(*rows))
    for t in g._tensors:
        name, size = t["name"], 1
        for n in t["shape"]:
            size *= n
        if name.endswith("norm.weight"):
            t["data"] = floats(*[1.0] * size)
        elif name in ("blk.0.attn_v.weight", "blk.0.attn_output.weight", "cls.weight"):
            t["data"] = diagonal(0.1 if name == "cls.weight" else 1.0)
        elif name == "cls.output.weight":
            t["data"] = floats(1.0, *[0.0] * (size - 1))
        elif name != "token_embd.weight":
            t["data"] = floats(*[0.0] * size)
    return g


def launched(cli, path: Path, *more: object):  # type: ignore[no-untyped-def]
    result = cli("launch", path, "--check-only", "--port", 0, "--force", "--format", "json", *more)
    assert result.json, result.err
    assert not children()
    return result


def observed(found: dict) -> dict[str, object]:
    return {c["what"]: c["observed"] for c in found["checks"]}


def test_an_embedder_is_proven(cli, server: str, tmp_path: Path) -> None:
    result = launched(cli, even(bert(pooling=1)).write(tmp_path / "m.gguf"))
    assert result.code == 0, result.out
    seen, values = checks(result.json), observed(result.json)
    assert seen["embedding: numbers"] is seen["embedding: finite"] is seen["embedding: length"] is True
    assert values["embedding: numbers"] == WIDE
    assert values["embedding: length"] == "1.0000"
    assert seen["embedding: two texts differ"] is seen["embedding: the same text again"] is True
    long = next(what for what in seen if what.startswith("embedding: a text of"))
    assert seen[long] is True
    assert 450 < int(long.split()[4]) <= 512
    assert "--embeddings" in result.json["command"]
    assert result.json["gives"] == {"kind": "embedder", "family": None, "pooling": "mean", "numbers": WIDE}


def test_a_text_longer_than_llama_cpps_graph(cli, server: str, tmp_path: Path) -> None:
    """Refused without -ub: "input … is too large to process" (b11434); launch chooses it."""
    result = launched(cli, even(bert(context=2048)).write(tmp_path / "m.gguf"))
    assert result.code == 0, result.out
    assert any(w.startswith("embedding: a text of") and int(w.split()[4]) > 1900 for w in checks(result.json))
    short = launched(cli, tmp_path / "m.gguf", "--ubatch", 128)
    assert any(w.startswith("embedding: a text of") and int(w.split()[4]) <= 128 for w in checks(short.json))


def test_a_language_model_that_embeds(cli, server: str, tmp_path: Path) -> None:
    """Pooled by the last token a text is cut: one of two graphs is answered without a larger -ub."""
    result = launched(cli, qwen3().write(tmp_path / "m.gguf"))
    assert result.code == 0, result.out
    assert any(w.startswith("embedding: a text of") and int(w.split()[4]) > 900 for w in checks(result.json))


def test_vectors_of_a_model_that_writes(cli, server: str, tmp_path: Path) -> None:
    result = launched(cli, llama().write(tmp_path / "m.gguf"), "--embeddings", "--pooling", "mean")
    assert result.code == 0, result.out
    assert checks(result.json)["embedding: two texts differ"] is True


def test_no_end_token_where_the_family_was_trained_with_one(cli, server: str, tmp_path: Path) -> None:
    what = "embedding: an end token behind a text"
    assert checks(launched(cli, qwen3().write(tmp_path / "with.gguf")).json)[what] is True
    result = launched(cli, qwen3(eos=None).write(tmp_path / "without.gguf"))
    assert (result.code, checks(result.json)[what]) == (1, False)
    unknown = launched(cli, qwen3(eos=False, name="Foo 1B").write(tmp_path / "unknown.gguf"))
    assert (unknown.code, checks(unknown.json)[what]) == (0, None)


@pytest.mark.parametrize("asked", [-1, 0, 1, 2, 3])
def test_as_long_as_asked(asked: int, cli, server: str, tmp_path: Path) -> None:
    result = launched(cli, even(bert()).write(tmp_path / "m.gguf"), "--", "--embd-normalize", asked)
    assert result.code == 0, result.out
    values = observed(result.json)
    name = {0: "largest number", 1: "sum", 2: "length", 3: "3-norm"}.get(asked, "")
    assert f"embedding: {name}" in values if name else not any("length" in what for what in values)
    if name:
        assert abs(float(str(values[f"embedding: {name}"])) - (32760 if asked == 0 else 1)) <= (
            5 if not asked else 1e-3
        )


def test_one_that_says_the_same_of_everything(cli, server: str, tmp_path: Path) -> None:
    g = even(bert(pooling=2), alike=True)
    result = launched(cli, g.write(tmp_path / "m.gguf"))
    assert result.code == 1
    assert checks(result.json)["embedding: two texts differ"] is False


def test_one_that_computes_no_numbers(cli, server: str, tmp_path: Path) -> None:
    g = even(bert(pooling=1)).retensor("blk.0.layer_output_norm.bias", data=floats(*[float("nan")] * WIDE))
    result = launched(cli, g.write(tmp_path / "m.gguf"))
    assert result.code == 1
    assert checks(result.json)["embedding: finite"] is False


def test_one_that_names_no_way_of_pooling(cli, server: str, tmp_path: Path) -> None:
    path = even(bert(pooling=None)).write(tmp_path / "m.gguf")
    result = launched(cli, path)
    assert result.code == 1
    assert "Pooling type 'none' is not OAI compatible" in str(observed(result.json)["embedding"])
    assert launched(cli, path, "--pooling", "mean").code == 0
    # Who asks for a vector a token gets them.
    assert launched(cli, path, "--pooling", "none", "--embeddings").code == 0


def test_a_reranker_is_proven(cli, server: str, tmp_path: Path) -> None:
    result = launched(cli, even(bert_reranker()).write(tmp_path / "m.gguf"))
    assert result.code == 0, result.out
    assert "--rerank" in result.json["command"]
    assert observed(result.json)["ranking: best document"] == "The capital of France is Paris."
    assert checks(result.json)["ranking: scores differ"] is True


def test_a_reranker_without_its_head_is_not(cli, server: str, tmp_path: Path) -> None:
    """llama-server answers all the same, and by luck in the right order."""
    result = launched(cli, even(bert_reranker(head=False)).write(tmp_path / "m.gguf"))
    assert result.code == 1
    assert checks(result.json)["ranking: head"] is False


def test_a_reranker_turned_around_is_not(cli, server: str, tmp_path: Path) -> None:
    g = even(bert_reranker()).retensor("cls.output.weight", data=floats(-1.0, *[0.0] * (WIDE - 1)))
    result = launched(cli, g.write(tmp_path / "m.gguf"))
    assert result.code == 1
    assert checks(result.json)["ranking: best document"] is False


def test_a_reranker_that_answers_in_a_template(cli, server: str, tmp_path: Path) -> None:
    """Random weights rank at random: what counts is that it was asked, and that the scores are sound."""
    found = launched(cli, qwen3_reranker(template=RERANK).write(tmp_path / "m.gguf")).json
    assert checks(found)["ranking: finite"] is True
    assert "ranking: best document" in checks(found)


def test_held_against_vectors_of_the_source(cli, server: str, tmp_path: Path) -> None:
    """The mean of a text's words, worked out here; pooled by the first token the same model gives others."""
    path = even(bert(pooling=1)).write(tmp_path / "m.gguf")
    texts = ("paris", "banana", "the capital")
    file = tmp_path / "vectors.json"
    file.write_text(json.dumps({t: mean_of(path, t) for t in texts}))
    result = launched(cli, path, "--against", file)
    assert result.code == 0, result.out
    what = f"embedding: cosine with {file.name}"
    assert checks(result.json)[what] is True
    assert str(observed(result.json)[what]).startswith("1.0000 (3 texts)")
    other = launched(cli, path, "--against", file, "--pooling", "cls")
    assert other.code == 1
    assert checks(other.json)[what] is False


def normed(row: list[float]) -> list[float]:
    mean = sum(row) / len(row)
    spread = (sum((x - mean) ** 2 for x in row) / len(row)) ** 0.5 or 1.0
    return [(x - mean) / spread for x in row]


def mean_of(path: Path, text: str) -> list[float]:
    """The graph of `models/bert.cpp` (b11434) for `even` weights: layer norms, even attention, no feed-forward part."""
    from gguf import GGUFReader

    reader = GGUFReader(path)
    words = [bytes(reader.fields["tokenizer.ggml.tokens"].parts[i]).decode() for i in
             reader.fields["tokenizer.ggml.tokens"].data]  # fmt: skip
    table = next(t.data for t in reader.tensors if t.name == "token_embd.weight")
    ids = [words.index(w) for w in ("[CLS]", *(f"▁{w}" for w in text.split()), "[SEP]")]
    rows = [normed([float(x) for x in table[i]]) for i in ids]
    seen = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    out = [normed(normed([a + b for a, b in zip(row, seen, strict=True)])) for row in rows]
    return [sum(column) / len(out) for column in zip(*out, strict=True)]
