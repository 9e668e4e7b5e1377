"""Edits of files beside a model: nothing of contexts, and judged by their own loaders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import GGUF
from tests.lint.samples_adapter import lora, matrix, vector

FILES = {
    "a LoRA adapter": lora,
    "a control vector": vector,
    "an importance matrix": matrix,
    "a multimodal projector": lambda: GGUF("clip").kv("general.type", "mmproj").tensor("mm.0.weight"),
}
CONTEXT = (
    ("--context-length", "8192"),
    ("--rope-scaling", "yarn", "--context-length", "8192"),
    ("--rope-freq-base", "1000000"),
    ("--kv-cache-type", "q8_0"),
)


@pytest.mark.parametrize("options", CONTEXT, ids=lambda o: o[0])
@pytest.mark.parametrize("what", FILES)
def test_no_context_is_written_into_it(what: str, options: tuple[str, ...], tmp_path: Path, cli) -> None:
    path = FILES[what]().write(tmp_path / "side.gguf")
    before = path.read_bytes()
    done = cli("fix", *options, "--yes", str(path))
    assert (done.code, done.out) == (2, "")
    assert f"is {what}: it has no context" in done.err
    assert path.read_bytes() == before


def test_nothing_is_said_of_a_context(tmp_path: Path, cli) -> None:
    path = lora().write(tmp_path / "a.gguf")
    done = cli("fix", "--set", "llama.context_length=8192", "--dry-run", str(path))
    assert done.code == 0
    assert "will see" not in done.out + done.err


BREAKS = (
    (lora, ("--set", "general.type=model"), "expect general.type to be 'adapter', but got: model"),
    (lora, ("--set", "adapter.type=dora"), "expect adapter.type to be 'lora', but got: dora"),
    (lora, ("--set", "general.architecture=lama"), "model arch and LoRA arch mismatch"),
    (matrix, ("--delete", "imatrix.chunk_count"), "missing imatrix metadata in file"),
)


@pytest.mark.parametrize(("made", "change", "line"), BREAKS, ids=lambda v: v[1] if isinstance(v, tuple) else "")
def test_what_its_loader_would_not_take_is_refused(
    made, change: tuple[str, str], line: str, tmp_path: Path, cli
) -> None:
    path = made().write(tmp_path / "side.gguf")
    before = path.read_bytes()
    done = cli("fix", *change, str(path))
    assert done.code == 4, done.out + done.err
    assert line in done.err
    assert path.read_bytes() == before


def test_safe_fixes_make_it_load(tmp_path: Path, cli) -> None:
    g = lora().drop("general.type", "adapter.type").replace("adapter.lora.alpha", 16, "u32")
    path = g.write(tmp_path / "a.gguf")
    assert cli("lint", "--fix", str(path)).code == 0
    found = cli("lint", "--format", "json", str(path)).json
    assert found["files"][0]["load"]["verdict"] == "loads"


def test_missing_padding_is_put_back(tmp_path: Path, cli) -> None:
    path = vector(width=65).truncate(-4).write(tmp_path / "c.gguf")
    assert cli("lint", str(path)).code == 1
    assert cli("lint", "--fix", str(path)).code == 0
    assert cli("lint", str(path)).code == 0


def test_verify_and_scan_tell_a_broken_one(tmp_path: Path, cli) -> None:
    lora().write(tmp_path / "good.gguf")
    lora().drop_tensor("blk.0.attn_q.weight.lora_b").write(tmp_path / "half.gguf")
    vector().tensor("direction.0", (64,)).write(tmp_path / "zero.gguf")
    rows = {Path(row["path"]).name: row for row in cli("scan", "--format", "json", str(tmp_path)).json["models"]}
    assert [rows[f"{name}.gguf"]["load"] for name in ("good", "half", "zero")] == ["loads", "refused", "warns"]
    said = [cli("verify", str(tmp_path / f"{name}.gguf")) for name in ("good", "half", "zero")]
    assert [("does not take it" in done.out, done.code) for done in said] == [(False, 0), (True, 0), (True, 0)]
    assert [bool(rows[f"{name}.gguf"]["lint"]["error"]) for name in ("good", "half", "zero")] == [False, True, True]
