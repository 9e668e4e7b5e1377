"""A predicted warning always has a finding: every place of the prediction that can warn is driven, lint tells it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gguftool
from gguftool.facts.data import load
from gguftool.lint.rules.load import LINES
from gguftool.lint.run import Report, lint
from gguftool.model import from_source
from gguftool.source import Memory
from tests.lint.samples_tokenizer import bpe
from tests.predict.recipes import built, recipes

ROOMS = ("predict", "facts/machine")
TG = "tokenizer.ggml."


def put(key: str, kind: str, value: object) -> dict[str, Any]:
    return {"op": "set", "key": key, "type": kind, "value": value}


def token(i: int, text: str, typed: int | None = None) -> list[dict[str, Any]]:
    ops = [{"op": "array_set", "key": f"{TG}tokens", "i": i, "value": text}]
    return ops if typed is None else [*ops, {"op": "array_set", "key": f"{TG}token_type", "i": i, "value": typed}]


def matrices(base: str) -> list[str]:
    model = from_source(built({"base": base, "ops": []}), strict=False)
    return [t.name for t in model.tensors.values() if t.shape[0] % 32 == 0]


DRIVEN: dict[str, tuple[str, str, list[dict[str, Any]]]] = {
    # place in the source: what a line of it holds, a base, what is done to it
    "unknown_type(m)": (
        "unknown type mxfp4", "tiny/qwen3", [{"op": "ttype", "name": n, "type": 39} for n in matrices("tiny/qwen3")]),
    "f'model has unused tensor {name} (size = {info.nbytes} bytes) -- ignoring'": (
        "model has unused tensor", "tiny/glm4moe", []),
    "f'load: adding {size} dummy tokens'": (
        "dummy tokens", "tiny/qwen3", [put(f"{TG}model", "str", "none"), put("qwen3.vocab_size", "u32", 320)]),
    "f'load: {line}'": ("GENERATION QUALITY", "tiny/qwen3", [{"op": "del", "key": f"{TG}pre"}]),
    "f'load: empty token at index {i}'": ("empty token at index 200", "tiny/qwen3", token(200, "")),
    "'load: SPM vocabulary, but newline token not found: unordered_map::at! Using special_pad_id instead.'": (
        "SPM vocabulary, but newline", "tiny/gemma3", token(14, "<0x0Z>")),
    "_NO_NEWLINE": ("missing newline token", "tiny/qwen3", [put(f"{TG}pre", "str", "whitespace")]),
    "f\"load: default special token '{full}' = {default} out of vocab range, disabling\"": (
        "= 100 out of vocab range", "tiny/qwen3", [
            put(f"{TG}model", "str", "bert"), {"op": "array_len", "key": f"{TG}tokens", "n": 100}]),
    "f\"load: bad special token: '{full}' = {value}, using default id {default}\"": (
        "bad special token", "tiny/qwen3", [put(f"{TG}padding_token_id", "u32", 999_999)]),
    "\"load: override 'tokenizer.ggml.add_bos_token' to 'true' for Gemma4\"": (
        "override", "tiny/qwen3", [put(f"{TG}pre", "str", "gemma4")]),
    "_CONTROL_LOOKING.format(token, text)": ("control-looking token", "tiny/qwen3", token(200, "[EOT]", 1)),
    "f\"load: setting token '{text}' ({token}) attribute to USER_DEFINED (16), old attributes: {old}\"": (
        "attribute to USER_DEFINED", "tiny/qwen3", token(200, "<|channel|>", 3)),
    "_NOT_EOG.format(role)": ("special_eos_id is not in", "tiny/qwen3", [put(f"{TG}eos_token_id", "u32", 200)]),
    "\"load: special_eog_ids contains both '<|return|>' and '<|call|>', or '<|calls|>' and '<|flush|>' tokens, "
    "removing '<|end|>' token from EOG list\"": (
        "contains both", "tiny/qwen3", [*token(200, "<|end|>"), *token(201, "<|return|>"), *token(202, "<|call|>")]),
    "\"load: '</s>' is a normal token here, removing it from EOG list\"": (
        "'</s>' is a normal token", "tiny/qwen3", [*token(200, "</s>"), *token(201, "<|tool_response>")]),
    "'load: Mask token is missing in vocab, please reconvert model!'": (
        "Mask token is missing", "tiny/qwen3", [put(f"{TG}pre", "str", "jina-v2-de")]),
    "'load: Mask token missing in vocab!'": (
        "Mask token missing", "tiny/qwen3", [put("general.name", "str", "Modern-BERT")]),
    "row[1]": ("Phi SWA is currently disabled", "archs/phi3-dense", [
        put("phi3.attention.sliding_window", "u32", 64)]),
}  # fmt: skip
# The last is whatever a translated program of C++ logs: tests/predict/test_projector.py holds it against clip.cpp.
HANDED_ON = {"vocab.warnings", "machine.warnings", "asked.warnings", "state.warnings", "size"} | {
    "str(words(scope)).strip('\\n')",
    "(*said, *vocab.warnings, *tensors.asked.warnings)",
}


def _added(node: ast.AST) -> ast.expr | None:
    """What this statement puts into a list of warnings."""
    to: ast.expr | None = None
    value: ast.expr | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "extend"):
        to, value = node.func.value, node.args[0]
    elif isinstance(node, ast.AugAssign):
        to, value = node.target, node.value
    elif isinstance(node, ast.Assign):
        to, value = node.targets[0], node.value
    return value if to is not None and ast.unparse(to).endswith("warnings") else None


def warned() -> Iterator[str]:
    """What is added to a list of warnings anywhere in the prediction, as it stands in the source."""
    package = Path(gguftool.__file__).parent
    for path in sorted(p for room in ROOMS for p in (package / room).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            added = _added(node)
            if added is None:
                continue
            inside = [n for n in ast.walk(added) if isinstance(n, ast.ListComp | ast.List | ast.IfExp)]
            if isinstance(added, ast.ListComp):
                yield ast.unparse(added.elt)
            elif isinstance(added, ast.IfExp):
                yield from (ast.unparse(e) for n in inside if isinstance(n, ast.List) for e in n.elts)
            elif not (isinstance(added, ast.BinOp | ast.List)):
                yield ast.unparse(added)


def checked(base: str, ops: list[dict[str, Any]]) -> Report:
    return lint(from_source(built({"base": base, "ops": ops}), strict=False))


def same(one: str, other: str) -> bool:
    """Lines of one kind."""
    return one == other or any(k.pattern.match(one) and k.pattern.match(other) for k in LINES)


def untold(report: Report) -> list[str]:
    """Predicted warnings that no finding is about."""
    assert report.load is not None
    return [
        text
        for text in report.load.warnings
        for kind in [next((k for k in LINES if k.pattern.match(text)), None)]
        if not any(
            (f.rule == "load-warns" and any(same(line, text) for line in f.data["lines"]))  # type: ignore[attr-defined]
            or (kind is not None and f.rule in kind.rules)
            for f in report.findings
        )
    ]


def test_every_place_that_warns_is_driven() -> None:
    assert sorted({w for w in warned() if w not in HANDED_ON}) == sorted(DRIVEN)


def test_every_row_that_warns_is_known() -> None:
    def rows(value: Any) -> Iterator[str]:
        if isinstance(value, list) and value and value[0] == "warn":
            yield value[1]
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from rows(part)

    said = set(rows(dict(load("load_maps.json")["classes"])))
    assert said
    assert all(any(k.pattern.match(text) for k in LINES) for text in said)


@pytest.mark.parametrize("place", DRIVEN)
def test_a_predicted_warning_has_a_finding(place: str) -> None:
    words, base, ops = DRIVEN[place]
    report = checked(base, ops)
    assert report.load is not None
    lines = [text for text in report.load.warnings if words in text]
    assert lines, report.load
    kinds = [k for k in LINES if k.pattern.match(lines[0])]
    assert len(kinds) == 1
    assert any(f.rule == "load-warns" or f.rule in kinds[0].rules for f in report.findings)
    assert untold(report) == []


@pytest.mark.parametrize("place", DRIVEN)
def test_alone_the_rule_tells_every_line(place: str) -> None:
    _, base, ops = DRIVEN[place]
    report = lint(from_source(built({"base": base, "ops": ops}), strict=False), select=["load-warns"])
    assert report.load is not None
    told = {text for f in report.findings for text in f.data["lines"]}  # type: ignore[attr-defined]
    assert set(report.load.warnings) - told == set() or len(report.load.warnings) > 20


def test_recorded_warnings_are_told() -> None:
    """A sample of the mutations that the real library warned about."""
    some = [r for r in recipes() if r.get("warnings") and r["verdict"] in ("loads", "warns")][::4]
    assert len(some) > 20
    for record in some:
        report = checked(record["base"], record["ops"])
        lines = untold(report)
        if record["base"].endswith(("bert", "bert-v2", "embedding")):
            # Of a model that gives embeddings the end of an answer is no matter.
            lines = [text for text in lines if "special_eog_ids" not in text]
        assert lines == [], record


@pytest.mark.parametrize("role", ["eos", "eot", "eom"])
@pytest.mark.parametrize("typed", [1, 6])
def test_an_ordinary_word_that_ends_answers(role: str, typed: int) -> None:
    ops = [*token(200, "<0x41>" if typed == 6 else " the", typed), put(f"{TG}{role}_token_id", "u32", 200)]
    report = checked("tiny/qwen3", ops)
    found = [f for f in report if f.rule == "eos-not-control"]
    assert [(f.severity.value, f.where) for f in found] == [("warning", f"field:{TG}{role}_token_id")]
    assert all(f.fix is None or not f.fix.safe for f in report if "token_id" in f.where)


def test_no_safe_fix_papers_over_it() -> None:
    """An eot beside an ordinary eos would make the file look finished (SmolLM2 with eos 500 'ast')."""
    report = lint(from_source(Memory(bpe(eos=97).bytes(), "m"), strict=False))
    rules = {f.rule: f for f in report}
    assert "eos-not-control" in rules
    assert rules["end-of-turn-by-name-only"].fix is None


@pytest.mark.parametrize(("value", "fires"), [(9, True), (5, True), (0, False), (4, False), (2**32 - 1, False)])
def test_ways_of_pooling(value: int, fires: bool) -> None:
    report = checked("tiny/qwen3", [put("qwen3.pooling_type", "u32", value)])
    found = [f for f in report if f.rule == "pooling-type-unknown"]
    assert bool(found) is fires
    if fires:
        assert found[0].severity.value == "error"
        assert "llama-server --embedding aborts, without it the model runs" in found[0].message
        assert found[0].data["mode"] == "embedding"
