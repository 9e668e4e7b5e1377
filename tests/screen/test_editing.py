"""Changes that wait, without a screen: what they are, how they are judged, how they get into the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import gguftool
from gguftool.api import editing, outlook
from gguftool.api.editing import CONSENTS, Editing, begin
from gguftool.edit.plan import plan_edit
from gguftool.edit.spelled import field_text
from gguftool.errors import ChangedMeanwhile, FormatError, Refused, UsageError
from gguftool.lint.run import lint
from gguftool.model.keytree import CROWD, grouped
from gguftool.report.escaped import escaped, hides, unescaped
from gguftool.report.text import safe_lines
from tests.build import GGUF, llama
from tests.edit.oslayers import CountingOs, Crashed

YES, FORCE = CONSENTS[:2]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return llama().kv("general.tags", ["a,b", "c"]).write(tmp_path / "m.gguf")


def opened(path: Path) -> Editing:
    return begin(str(path))[0]


def test_every_change_is_a_value_of_its_own(model: Path):
    before = model.read_bytes()
    e = opened(model)
    one = editing.set_value(e, "context_length", "4096")
    two = editing.delete(one, "general.name")
    assert (len(e.steps), len(one.steps), len(two.steps)) == (0, 1, 2)
    assert [x.state("llama.context_length") for x in (e, one)] == ["same", "changed"]
    assert [two.state(k) for k in ("general.name", "no.such", "general.tags")] == ["gone", "absent", "same"]
    assert editing.back(two).steps == one.steps
    assert editing.forth(editing.back(editing.back(two))).steps == one.steps
    assert editing.forth(two) is two
    # A new change leaves nothing to be made again.
    assert editing.set_value(editing.back(two), "my.x", "1", "u8").undone == ()
    assert model.read_bytes() == before


@pytest.mark.parametrize(
    ("key", "text", "kind", "says"),
    [
        ("llama.context_length", "-1", "", "does not fit into u32"),
        ("llama.context_length", "1", "u64", "llama.context_length is u32, not u64"),
        ("my.key", "1", "", "its type must be named"),
        ("my.key", "1", "u33", "unknown value type 'u33'"),
        ("", "1", "u8", "an empty key"),
        ("general.alignment", "64", "", "would contradict the layout"),
        ("general.name", "a\0b", "", "zero byte"),
        ("general.name", "\udc80", "", "is not UTF-8"),
        ("k" * 65_536, "1", "u8", "65,535 bytes at most"),
    ],
)
def test_what_fix_refuses_is_refused_here(model: Path, cli, key: str, text: str, kind: str, says: str):
    with pytest.raises((UsageError, Refused)) as refused:
        editing.set_value(opened(model), key, text, kind)
    assert says in str(refused.value)
    if "\0" not in text and key and len(key) < 1000:
        # The very words of the command.
        done = cli("fix", model, "--set", f"{key}{':' + kind if kind else ''}={text}")
        assert str(refused.value).splitlines()[0] in done.err or "\udc80" in text
        assert done.code == refused.value.exit_code


def test_what_may_be_insisted_on(model: Path):
    e = opened(model)
    assert editing.set_value(e, "llama.context_length", "1", "u64", frozenset({FORCE})).consents == {FORCE}
    nul = editing.set_value(e, "general.name", "a\0b", "", frozenset({YES}))
    assert outlook.plan(nul).new.get("general.name").value == "a\0b"
    harm = editing.set_value(e, "llama.block_count", "9")
    with pytest.raises(Refused, match="would refuse it after this change") as refused:
        outlook.plan(harm)
    assert outlook.ways(harm, refused.value) == (YES,)
    assert outlook.judge(harm).harm is not None
    assert not outlook.judge(harm).report.load.loads
    assert outlook.judge(harm).before.load.loads


@pytest.mark.skipif(not hasattr(__import__("os"), "link"), reason="no hard links here")
def test_a_file_with_two_names(model: Path):
    model.with_name("other.gguf").hardlink_to(model)
    e = editing.delete(opened(model), "general.name")
    assert e.base.refusal is None
    with pytest.raises(Refused, match="2 names") as refused:
        outlook.plan(e)
    assert [c.option for c in outlook.ways(e, refused.value)] == ["--hard-links follow", "--hard-links break"]


@pytest.mark.parametrize("kind", ["store", "broken", "read-only"])
def test_what_is_only_shown(tmp_path: Path, kind: str):
    folder = tmp_path / "models--a--b" / "snapshots" / "c"
    folder.mkdir(parents=True)
    path = llama().write(folder / "m.gguf" if kind == "store" else tmp_path / "m.gguf")
    if kind == "broken":
        path.write_bytes(path.read_bytes()[:300])
    path.chmod(0o444 if kind == "read-only" else 0o644)
    e = opened(path)
    hint = {"store": "edit a copy: --output NEW.gguf", "broken": "gguftool lint", "read-only": "chmod u+w"}[kind]
    for change in (lambda: editing.delete(e, "general.name"), lambda: outlook.plan(e)):
        with pytest.raises((Refused, FormatError)) as refused:
            change()
        assert hint in (refused.value.hint or "")
    assert outlook.judge(e).report.findings


def test_findings_are_those_of_the_file_once_written(model: Path):
    e = opened(model)
    was = {(f.rule, f.where) for f in outlook.judge(e).report.findings}
    with gguftool.open(model, strict=False) as m:
        assert was == {(f.rule, f.where) for f in lint(m).findings}
    e = editing.set_value(e, "tokenizer.ggml.eos_token_id", "9999")
    e = editing.set_value(e, "llama.rope.freq_base", "0")
    now = outlook.judge(e)
    written, _ = outlook.write(e, outlook.plan(e, frozenset({YES})))
    with gguftool.open(model, strict=False) as m:
        report = lint(m)
    assert {(f.rule, f.where, f.message) for f in now.report.findings} == {
        (f.rule, f.where, f.message) for f in report.findings
    }
    assert len(report.findings) > len(was)
    assert written.steps == ()
    assert written.base.undoable == 1


def test_fixes_one_by_one_and_all(model: Path):
    e = opened(model)
    found = outlook.judge(e).report.findings
    for finding in found:
        if finding.fix is not None and finding.fix.safe:
            e = editing.mend(e, finding)
    assert not [f for f in outlook.judge(e).report.findings if f.fix is not None and f.fix.safe]
    every, why = editing.mend_all(opened(model))
    assert (set(every.operations), why) == (set(e.operations), [])
    with pytest.raises(UsageError, match="no fix"):
        editing.mend(e, next(f for f in outlook.judge(editing.delete(e, "llama.context_length")).report.findings
                             if f.fix is None or not f.fix.operations))  # fmt: skip


def test_written_and_taken_back_to_the_byte(model: Path):
    before = model.read_bytes()
    e = editing.rename(editing.set_value(opened(model), "my.text", "x" * 9000, "str"), "general.name", "general.other")
    e, result = outlook.write(e, outlook.plan(e, argv=("edit", "m")))
    assert result.undo is not None
    with gguftool.open(model) as m:
        assert (m["my.text"], m["general.other"], "general.name" in m) == ("x" * 9000, "tiny llama", False)
    with pytest.raises(Refused, match="not written yet"):
        outlook.take_back(editing.delete(e, "my.text"))
    e, done = outlook.take_back(e)
    assert model.read_bytes() == before
    assert done.record.argv == ("edit", "m")
    assert (e.base.undoable, e.state("my.text")) == (0, "absent")


def test_a_file_that_another_program_changed(model: Path):
    e = editing.delete(editing.set_value(opened(model), "general.name", "mine"), "general.tags")
    made = outlook.plan(e)
    with gguftool.edit(model, keep_undo=False) as other:
        del other["general.tags"]
    theirs = model.read_bytes()
    for ask in (lambda: outlook.judge(e), lambda: outlook.plan(e), lambda: outlook.write(e, made)):
        with pytest.raises(ChangedMeanwhile):
            ask()
    assert model.read_bytes() == theirs
    fresh, lost = editing.again(e)
    assert [step.title for step in fresh.steps] == ["set general.name to mine"]
    assert len(lost) == 1
    assert "there is no key general.tags" in lost[0]
    model.unlink()
    with pytest.raises(ChangedMeanwhile):
        outlook.plan(e)


def test_an_interrupted_edit_is_settled_first(model: Path):
    before = model.read_bytes()
    with pytest.raises(Crashed):
        plan_edit(model, [gguftool.Delete("general.name")], layer=CountingOs(at=8)).commit()
    assert len(list(model.parent.iterdir())) == 2
    e, outcomes = begin(str(model))
    assert [outcome.action for outcome in outcomes] == ["rolled-back"]
    assert (e.base.refusal, model.read_bytes()) == (None, before)


def test_values_as_text_come_back(tmp_path: Path):
    made = GGUF("llama").kv("a.f32", 1e-5).kv("a.f64", 0.1, "f64").kv("a.bool", True).kv("a.i8", -3, "i8")
    made.kv("a.str", "x\ny").kv("a.strs", ["a,b", " c", ""]).kv("a.floats", [0.1, 1e30], "[f32]")
    made.kv("a.big", list(range(65)), "[u32]").kv("a.none", [], "[u32]").kv("a.inf", float("inf"))
    e = opened(made.write(tmp_path / "m.gguf"))
    for field in e.base.header.fields:
        text = field_text(field)
        if field.key == "a.big":
            assert text is None
            continue
        again = editing.set_value(e, field.key, text)
        assert again.header.get(field.key).value_bytes == field.value_bytes, field.key
    assert field_text(e.base.header.get("a.f32")) == "1e-05"


def test_keys_as_a_tree():
    keys = [
        "general.name",
        "llama.a",
        "llama.rope.x",
        "llama.rope.y",
        "llama.one.z",
        "odd",
        "llama.rope",
        "",
        ".",
        "a.",
    ]
    top = grouped(keys)
    assert sorted(every(top)) == sorted(keys)
    assert [g.label for g in top.groups] == ["general", "llama", "a"]
    llama_ = top.groups[1]
    assert (llama_.keys, [g.prefix for g in llama_.groups]) == (
        ("llama.a", "llama.one.z", "llama.rope"),
        ["llama.rope."],
    )
    for many in (
        [f"k{i}" for i in range(5000)],
        [f"k{i}.x" for i in range(20_000)],
        [f"a.k{i}.{j}" for i in range(5000) for j in "xy"],
    ):
        top = grouped(many)
        assert sorted(every(top)) == sorted(many)
        assert widest(top) <= 2 * CROWD


def every(group) -> list[str]:
    return [*group.keys, *(key for inner in group.groups for key in every(inner))]


def widest(group) -> int:
    return max([len(group.groups) + len(group.keys), *map(widest, group.groups)])


@pytest.mark.parametrize(
    "text", ["a\\n\u202eb", "\x1b[31m\r\n\t", "\udc80\udcff", "\U000e0001", "\0\x7f\x85", "ä\\x41"]
)
def test_what_hides_comes_back_to_the_byte(text: str):
    said = escaped(text)
    assert unescaped(said) == text
    assert safe_lines(said) == said
    assert hides(text) == (safe_lines(text) != text)


def test_a_wrong_escape_is_told():
    for text in ("\\", "\\q", "\\u12", "\\U00110000"):
        with pytest.raises(UsageError, match="no escape"):
            unescaped(text)


def test_any_shard_of_a_set(tmp_path: Path):
    whole = llama(layers=2).write(tmp_path / "m.gguf")
    gguftool.split(whole, tmp_path / "s", max_tensors=12)
    first, second, *_ = sorted(tmp_path.glob("s-*.gguf"))
    before = [path.read_bytes() for path in (first, second)]
    e = opened(second)
    assert e.base.path == str(first)
    assert outlook.judge(e).report.load.loads
    with pytest.raises(Refused, match="must agree in all files"):
        editing.set_value(e, "split.count", "9")
    e = editing.set_value(e, "general.name", "set")
    e, _ = outlook.write(e, outlook.plan(e))
    with gguftool.open(second) as m:
        assert m["general.name"] == "set"
    outlook.take_back(e)
    assert [path.read_bytes() for path in (first, second)] == before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="who has a file open is known on Linux alone")
def test_a_file_that_a_program_has_open(model: Path):
    e = editing.delete(opened(model), "general.name")
    with model.open("rb") as held, subprocess.Popen(["sleep", "60"], stdin=held) as other:
        try:
            with pytest.raises(Refused, match="in use by sleep") as refused:
                outlook.plan(e)
            assert [c.option for c in outlook.ways(e, refused.value)] == ["--in-use rewrite", "--in-use patch"]
        finally:
            other.kill()
