"""What the page shows of a model, held against what was put into the model; no browser is needed."""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import gguftool
from gguftool.api.report import Reported
from gguftool.report.page.data import body
from gguftool.report.page.filters import alike, by_rule, flags, percent, runs, state
from gguftool.report.page.render import inert, page, report_page
from tests.build import llama
from tests.report.page.pages import model

VOID = frozenset({"meta", "link", "br", "input", "img", "rect", "path", "circle"})


@dataclass(slots=True)
class Element:
    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def all(self, tag: str) -> Iterator[Element]:
        for child in self.children:
            if isinstance(child, Element):
                if child.tag == tag:
                    yield child
                yield from child.all(tag)

    @property
    def text(self) -> str:
        said = "".join(c if isinstance(c, str) else c.text for c in self.children)
        return re.sub(r"\s+", " ", said).strip()

    @property
    def rows(self) -> list[list[str]]:
        return [[c.text for c in row.children if isinstance(c, Element)] for row in self.all("tr")]


class Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("page", {})]
        self.by_id: dict[str, Element] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        new = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(new)
        self.by_id.setdefault(new.attributes.get("id", ""), new)
        if tag not in VOID:
            self.open.append(new)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop().tag == tag, "elements are closed in their order"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def sections(text: str) -> dict[str, Element]:
    tree = Tree()
    tree.feed(text)
    assert len(tree.open) == 1
    return tree.by_id


def fields(found: Reported) -> dict[str, Any]:
    return {**inert(body(found)), "left": {}}


def test_quantisation_as_labelled_as_measured_and_as_the_mixture_has_it(tmp_path: Path) -> None:
    # Labelled Q4_0 (2), and all F32: llama-quantize would make the matrices Q4_0.
    path = model().replace("general.file_type", 2).write(tmp_path / "m.gguf")
    said = sections(report_page(gguftool.report(path)))["quantisation"]
    terms = [x.text for x in said.all("dt")]
    labelled, measured, mixture = (x.text for x in said.all("dd"))
    assert [terms[0], terms[1], terms[2].replace("\xa0", " ")] == ["Labelled", "Measured", "llama-quantize Q4_0"]
    assert labelled == "Q4_0"
    assert measured.startswith("32.00 bits per weight")
    assert "F32 362.0 KiB, 100 %" in measured
    [bits] = re.findall(r"^(\d+\.\d\d) bits per weight", mixture)
    assert 4.5 < float(bits) < 7
    # Seven matrices in each of two layers, and the embedding, which is the output, too; norms stay F32.
    assert "15 tensors are of another type than that mixture gives them" in mixture
    rows = {row[0]: row[1:] for row in next(said.all("table")).rows[1:]}
    assert rows["blk.0.ffn_up.weight"] == ["F32", "Q4_0"]
    assert rows["token_embd.weight"] == ["F32", "Q8_0"]
    assert len(rows) == 2 * 7 + 1


def test_hashes_and_numbers_of_every_tensor_stand_in_the_page_itself(tmp_path: Path) -> None:
    data = struct.pack("<4f", 1, -3, 0, 2) + bytes(4 * 4092)
    nans = struct.pack("<f", float("nan")) * 4096
    g = model().retensor("blk.0.attn_q.weight", data=data).retensor("blk.1.attn_q.weight", data=nans)
    found = gguftool.report(g.write(tmp_path / "m.gguf"), data=True, hashes=True)
    table = next(t for t in sections(report_page(found))["bytes"].all("table") if "sha256" in t.rows[0])
    row = {line[0]: dict(zip(table.rows[0], line, strict=True)) for line in table.rows[1:]}
    one, none = row["blk.0.attn_q.weight"], row["blk.1.attn_q.weight"]
    assert one["sha256"] == hashlib.sha256(data).hexdigest()
    assert (one["Least"], one["Most"], one["Outliers"], one["NaN, infinite"]) == ("-3", "2", "3", "0")
    assert one["RMS"] == f"{math.sqrt(14 / 4096):.5g}"
    assert (none["Least"], none["RMS"], none["NaN, infinite"]) == ("none", "none", "4,096")


def layer(index: int, attention: str, **more: object) -> dict[str, object]:
    plain = {
        "index": index, "attention": attention, "window": 0, "shares_with": None, "heads": 8, "heads_kv": 2,
        "key_length": 128, "value_length": 128, "feed_forward": 512, "rope_base": 10000.0, "rope_dimensions": 128,
        "rope_scale": 1.0, "trunk": True, "caches": [],
    }  # fmt: skip
    return {**plain, **more}


def test_layers_are_a_strip_and_a_table_of_runs(tmp_path: Path) -> None:
    found = fields(gguftool.report(model().write(tmp_path / "m.gguf")))
    found["model"]["layers"] = [
        layer(0, "window", window=512), layer(1, "window", window=512),
        layer(2, "full", rope_base=1e6, rope_dimensions=64, rope_scale=0.125),
        layer(3, "state", heads_kv=0, rope_base=None, rope_dimensions=0, rope_scale=None),
        layer(4, "shared", shares_with=2), layer(5, "none", heads=0, heads_kv=0, rope_base=None), layer(6, "odd"),
    ]  # fmt: skip
    said = sections(page(found))["layers"]
    attention, bases, heads = said.all("svg")
    assert [x.attributes["class"] for x in attention.all("rect")] == ["f2", "f2", "f1", "f5", "f4", "f10", "f10"]
    assert [x.attributes["class"] for x in bases.all("rect")] == ["f6", "f6", "f7", "f0", "f6", "f0", "f6"]
    assert len(list(heads.all("rect"))) == 7
    assert [x.attributes["x"] for x in attention.all("rect")] == list("0123456")
    assert next(said.all("table")).rows[1:] == [
        ["0–1", "sliding window", "512", "8", "2", "128", "10,000", "all"],
        ["2", "looks back at everything", "all", "8", "2", "128", "1,000,000", "64 of 128, × 0.125"],
        ["3", "recurrent state", "–", "8", "–", "128", "–", "–"],
        ["4", "attends to the cache of an earlier layer (layer 2)", "all", "8", "2", "128", "10,000", "all"],
        ["5", "no attention", "–", "–", "–", "128", "–", "–"],
        ["6", "odd", "–", "8", "2", "128", "10,000", "all"],
    ]


def test_hashes_and_history(tmp_path: Path) -> None:
    path = model().write(tmp_path / "m.gguf")
    with gguftool.edit(path) as edit:
        edit["general.name"] = "Another"
    said = sections(report_page(gguftool.report(path, hashes=True)))["file"]
    assert hashlib.sha256(path.read_bytes()).hexdigest() in said.text
    [entry] = said.all("li")
    assert "general.name" in entry.text
    assert re.search(r"no\. 1, \d{4}-\d\d-\d\d \d\d:\d\d UTC, gguftool ", entry.text)


def test_builds_tokens_and_keys(tmp_path: Path) -> None:
    found = sections(report_page(gguftool.report(model().write(tmp_path / "m.gguf"))))
    tiles = [x.text for x in found["builds"].all("li")]
    assert any(re.fullmatch(r"b11434\s?2026-10-06\s?(loads|loads, warns)", x) for x in tiles), tiles
    tokens = found["tokens"].text
    assert "291 tokens, SPM (llama)" in tokens
    assert "bos 1" in tokens
    assert "eos 2" in tokens
    keys = {row[0]: row for row in next(found["keys"].all("table")).rows}
    assert keys["llama.block_count"][1:3] == ["u32", "2"]
    assert "layers" in keys["llama.block_count"][3]


def test_errors_stand_before_the_picture_and_warnings_behind_it(tmp_path: Path) -> None:
    good = report_page(gguftool.report(model().write(tmp_path / "m.gguf")))
    bad = report_page(gguftool.report(llama(llama__rope__freq_base=-5.0).write(tmp_path / "n.gguf")))
    assert good.index('id="bytes"') < good.index('id="findings"')
    assert bad.index('id="findings"') < bad.index('id="bytes"')


def test_the_sentence_and_what_stands_behind_it(tmp_path: Path) -> None:
    path = model().write(tmp_path / "m.gguf")
    said = body(gguftool.report(path))["verdict"]
    assert re.fullmatch(r"llama\.cpp b11434 loads it; lint finds \d warnings, \d notes?\.", said["sentence"])
    cut = model().truncate(9000).write(tmp_path / "cut.gguf")
    broken = body(gguftool.report(cut))["verdict"]
    assert broken["level"] == "error"
    assert broken["sentence"].startswith("It is not whole; ")
    assert any("bytes" in line for line in broken["details"])


def test_a_page_that_lost_rows_says_so(tmp_path: Path) -> None:
    found = fields(gguftool.report(model().write(tmp_path / "my model.gguf")))
    found["left"] = {"tensors": 1234}
    said = sections(page(found))["bytes"].text
    assert "1,234 more are left out" in said
    assert f"gguftool dump '{tmp_path}/my model.gguf'" in said


def test_layers_that_are_alike_are_one_row(tmp_path: Path) -> None:
    g = llama(layers=12).tensor("blk.11.extra.weight", (64,))
    said = sections(report_page(gguftool.report(g.write(tmp_path / "m.gguf"))))["bytes"]
    table = next(t for t in said.all("table") if t.rows[0][0] == "Layer")
    each = 4 * (2 * 64 + 64 * (64 + 32 + 32 + 64 + 3 * 128))
    assert [row[:4] for row in table.rows[1:]] == [
        ["outside the layers", "", "2", f"{4 * 64 * 292 / 1024:.1f} KiB"],
        ["blk.0 … blk.10", "11", "9", f"{each / 1024:.1f} KiB"],
        ["blk.11", "1", "10", f"{(each + 256) / 1024:.1f} KiB"],
    ]


def test_filters() -> None:
    shown = {0: "0 %", 0.00001: "< 0.01 %", 0.0009: "0.09 %", 0.0951: "10 %", 0.5: "50 %", 1: "100 %"}
    assert {x: percent(x) for x in shown} == shown
    assert str(flags("use --cache-type q8_0, <b>-1 a-b")) == (
        'use <span class="nb">--cache-type</span> q8_0, &lt;b&gt;-1 a-b'
    )
    assert [x["layers"] for x in runs({"index": i, "a": i // 2} for i in range(5))] == ["0–1", "2–3", "4"]
    said = [{"build": b, "verdict": v, "messages": m, "not_evaluated": []} for b, v, m in (
        (1, "refused", ["x"]), (2, "refused", ["x"]), (3, "loads", []), (4, "warns", ["y"]),
    )]  # fmt: skip
    assert [(x["builds"], x["says"]) for x in alike(said)] == [("b1 … b2", "x"), ("b4", "y")]


def test_how_models_of_a_fleet_stand() -> None:
    def row(ok: bool = True, load: str | None = "loads", **lint: int) -> dict[str, Any]:
        return {"ok": ok, "load": load, "lint": lint or None, "findings": []}

    assert state(row()) == ("good", "good")
    assert state(row(warning=1)) == ("warning", "with warnings")
    assert state(row(error=1, warning=1)) == ("error", "with errors")
    assert state(row(load="refused")) == ("error", "with errors")
    assert state(row(ok=False)) == ("error", "broken")
    found = {"severity": "warning", "message": "m", "where": "file"}
    rows = [
        {"path": p, "findings": [{"rule": rule, **found} for rule in names]}
        for p, names in (("a", "xx"), ("b", "xy"), ("c", "y"), ("d", "y"))
    ]
    rows[0]["findings"].append({"rule": "e", **found, "severity": "error"})
    assert [(f["rule"], f["models"], f["path"]) for f in by_rule(rows)] == [("e", 1, "a"), ("y", 3, "b"), ("x", 2, "a")]
