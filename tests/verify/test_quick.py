"""Family D of the public fault cases: truncated, corrupt, not a GGUF. Only offsets and sizes decide."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gguftool.errors import MissingFile, Unreadable
from gguftool.verify import quick
from tests.build import GGUF, llama
from tests.pace import within


def kinds(report) -> list[str]:
    return [fault.kind for fault in report.faults]


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return llama().write(tmp_path / "m.gguf")


def test_whole_file(whole: Path):
    report = quick(whole)
    assert report.ok
    assert (report.faults, report.notes) == ((), ())
    assert report.size == report.expected == whole.stat().st_size
    assert report.tensors == 11


def test_truncated_says_how_much_and_where(whole: Path):
    size = whole.stat().st_size
    os.truncate(whole, size - 16)
    report = quick(whole)
    assert kinds(report) == ["truncated"]
    fault = report.faults[0]
    assert fault.where == "tensor:blk.0.ffn_up.weight"
    assert fault.span == (size - 16, size)
    assert f"{size - 16:,} of {size:,} bytes" in fault.message
    assert "16 are missing" in fault.message


def test_first_tensor_affected_is_the_first_in_the_file(tmp_path: Path):
    model = GGUF("llama").tensor("a", (32,)).tensor("b", (32,)).tensor("c", (32,))
    path = model.write(tmp_path / "m.gguf")
    data = len(model.header())
    os.truncate(path, data + 128 + 64)
    fault = quick(path).faults[0]
    assert fault.where == "tensor:b"
    assert "(50.0% of the tensor data is present)" in fault.message
    assert "b and 1 more of 3" in fault.message


def test_padding_behind_the_last_tensor_is_not_needed(tmp_path: Path):
    model = GGUF("llama").tensor("a", (32,)).tensor("b", (3,))
    path = model.write(tmp_path / "m.gguf")
    os.truncate(path, len(model.header()) + 128 + 12)
    assert quick(path).ok
    os.truncate(path, len(model.header()) + 128 + 11)
    assert kinds(quick(path)) == ["truncated"]


def test_what_is_cut_off_is_never_all_there(tmp_path: Path):
    path = GGUF("llama").tensor("a", (32, 1000)).write(tmp_path / "m.gguf")
    os.truncate(path, path.stat().st_size - 4)
    assert "4 are missing (99.9% of the tensor data is present)" in quick(path).faults[0].message


def test_header_only(tmp_path: Path):
    model = llama()
    path = tmp_path / "m.gguf"
    path.write_bytes(model.header())
    fault = quick(path).faults[0]
    assert fault.kind == "truncated"
    assert "(0.0% of the tensor data is present)" in fault.message


@pytest.mark.parametrize("size", [4, 20, 60, 300, 2000])
def test_cut_inside_the_header_is_not_readable(cli, whole: Path, size: int):
    os.truncate(whole, size)
    result = cli("verify", whole, "--format", "json")
    assert result.code == 3
    assert result.json["files"][0]["problems"][0]["kind"] == "truncated"
    assert [e["code"] for e in result.json["errors"]] == ["not-readable"]


def test_never_a_false_truncated(tmp_path: Path):
    """Case 82: a complete mixture of experts, whose tensor names a dense reader does not expect."""
    model = GGUF("qwen3moe").kv("qwen3moe.block_count", 2).kv("qwen3moe.expert_count", 4)
    model.tensor("token_embd.weight", (32, 8))
    for i in range(2):
        for name in ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"):
            model.tensor(f"blk.{i}.{name}.weight", (32, 32, 4), "q8_0")
    assert quick(model.write(tmp_path / "m.gguf")).ok


def test_metadata_only_file_is_whole(tmp_path: Path):
    assert quick(GGUF("llama").kv("a", 1).write(tmp_path / "m.gguf")).ok
    path = tmp_path / "unpadded.gguf"
    model = GGUF("llama").kv("a", 1)
    path.write_bytes(model.header().rstrip(b"\0") + b"\0\0\0")
    assert quick(path).ok


def test_alignment_of_the_file_counts(tmp_path: Path):
    path = GGUF("llama").align(256).tensor("a", (3,)).tensor("b", (3,)).write(tmp_path / "m.gguf")
    assert quick(path).ok
    with open(path, "ab") as f:
        f.write(b"\0")
    assert kinds(quick(path)) == ["excess"]


def test_excess_bytes(whole: Path):
    size = whole.stat().st_size
    with open(whole, "ab") as f:
        f.write(os.urandom(1000))
    fault = quick(whole).faults[0]
    assert (fault.kind, fault.span) == ("excess", (size, size + 1000))
    assert "1,000 bytes too long" in fault.message


def test_download_started_again_behind_its_beginning(tmp_path: Path):
    """Case 74: the tail is the whole file, and the message says where it starts."""
    data = llama().bytes()
    path = tmp_path / "m.gguf"
    cut = len(data) // 3 + 7
    path.write_bytes(data[:cut] + data)
    fault = quick(path).faults[0]
    assert (fault.kind, fault.span) == ("restarted-download", (0, cut))
    assert f"starts again at byte {cut:,}" in fault.message
    assert path.read_bytes()[fault.span[1] :] == data


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "empty"),
        (bytes(8192), "zeros"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 4683073504\n",
            "lfs-pointer",
        ),
        (b"<!DOCTYPE html><html><head><title>Sign in</title></head></html>", "html"),
        (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "html"),
        (b'{"error":"Access to model x is restricted"}', "json"),
        (b"Entry not found", "text"),
        (b"lmgg" + bytes(100), "ggml"),
        ((64).to_bytes(8, "little") + b'{"a":{"dtype":"F32"}}'.ljust(64) + bytes(64), "safetensors"),
        (b"PK\x03\x04" + bytes(100), "zip"),
    ],
)
def test_something_else(cli, tmp_path: Path, content: bytes, kind: str):
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    result = cli("verify", path, "--format", "json")
    assert result.code == 3
    file = result.json["files"][0]
    assert (file["ok"], file["version"], file["problems"][0]["kind"]) == (False, 0, kind)
    assert result.json["ok"] is False
    text = cli("verify", path)
    assert text.code == 3
    assert "Traceback" not in text.err


def test_lfs_pointer_names_size_and_hash(cli, tmp_path: Path):
    path = tmp_path / "m.gguf"
    path.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'ab' * 32}\nsize 4683073504\n")
    assert "4,683,073,504" in cli("verify", path).out
    assert "ab" * 32 in cli("verify", path).out


def test_header_written_last_and_never(tmp_path: Path):
    """Case 80: a quantiser that was killed leaves zeros where the header belongs."""
    data = llama().bytes()
    path = tmp_path / "m.gguf"
    path.write_bytes(bytes(4096) + data[4096:])
    assert "header never written" in quick(path).faults[0].message


@pytest.mark.parametrize("ending", [".incomplete", ".part", ".aria2", ".crdownload", ".downloadInProgress"])
def test_partial_download_beside(cli, whole: Path, ending: str):
    """Case 77: half a file under its final name, and the downloader's file beside it."""
    Path(f"{whole}{ending}").write_bytes(b"x")
    os.truncate(whole, whole.stat().st_size // 2)
    result = cli("verify", whole, "--format", "json")
    assert result.code == 1
    file = result.json["files"][0]
    found = {p["kind"] for p in file["problems"] + file["notes"]}
    assert found == {"truncated", "partial-download"}


def test_aria2_control_file_means_unfinished_even_at_full_size(whole: Path):
    Path(f"{whole}.aria2").write_bytes(b"x")
    assert kinds(quick(whole)) == ["partial-download"]


def test_other_partial_files_are_a_note_when_the_size_is_right(whole: Path):
    Path(f"{whole}.part").write_bytes(b"x")
    report = quick(whole)
    assert report.ok
    assert [n.kind for n in report.notes] == ["partial-download"]


def test_hf_local_dir_download_beside(whole: Path):
    cache = whole.parent / ".cache" / "huggingface" / "download"
    cache.mkdir(parents=True)
    (cache / f"{whole.name}.3f5a.incomplete").write_bytes(b"x")
    assert [n.kind for n in quick(whole).notes] == ["partial-download"]


def test_missing_file_names_the_download_beside(cli, tmp_path: Path):
    (tmp_path / "m.gguf.part").write_bytes(b"x")
    result = cli("verify", tmp_path / "m.gguf")
    assert result.code == 2
    assert "m.gguf.part is there: the download has not finished" in result.err
    with pytest.raises(MissingFile):
        quick(tmp_path / "none.gguf")


def test_never_written_bytes_are_told(tmp_path: Path):
    model = llama(layers=12)
    data = model.bytes()
    path = tmp_path / "m.gguf"
    with open(path, "wb") as f:
        f.write(data[: len(model.header()) + 100_000])
        f.truncate(len(data))
    if path.stat().st_blocks * 512 >= len(data):
        pytest.skip("this filesystem keeps no holes")
    report = quick(path)
    assert report.ok
    assert [n.kind for n in report.notes] == ["holes"]


def test_tensor_far_outside_is_a_damaged_header_not_a_short_file(tmp_path: Path):
    """Case 127: an offset that nothing explains."""
    path = GGUF("llama").tensor("a", (32,)).tensor("b", (32,)).gap("b", 1 << 30).write(tmp_path / "m.gguf")
    report = quick(path)
    assert kinds(report) == ["offset-outside"]
    assert report.faults[0].where == "tensor:b"


def test_exabyte_tensor(tmp_path: Path):
    """Case 125: sizes no file can have."""
    path = GGUF("llama").tensor("a", (1 << 33, 1 << 33), "f32", data=bytes(64)).write(tmp_path / "m.gguf")
    assert kinds(quick(path)) == ["impossible-size"]


def test_tensor_type_newer_than_we_are(tmp_path: Path):
    path = GGUF("llama").tensor("a", (32,)).tensor("b", (32,), 99, data=bytes(128)).write(tmp_path / "m.gguf")
    report = quick(path)
    assert report.ok
    assert report.expected is None
    assert [n.kind for n in report.notes] == ["unknown-size"]


def test_interrupted_edit(cli, whole: Path):
    whole.write_bytes(b"GGTX" + whole.read_bytes()[4:])
    result = cli("verify", whole)
    assert result.code == 7
    assert "gguftool recover" in result.out


def test_folder_pipe_and_permission(tmp_path: Path, cli):
    with pytest.raises(Unreadable):
        quick(tmp_path)
    os.mkfifo(tmp_path / "p.gguf")
    with pytest.raises(Unreadable):
        quick(tmp_path / "p.gguf")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert cli("verify", empty).code == 3


def test_several_models_one_exit_code(cli, tmp_path: Path):
    good = llama().write(tmp_path / "a.gguf")
    bad = llama().truncate(-40).write(tmp_path / "b.gguf")
    assert cli("verify", good).code == 0
    both = cli("verify", good, bad, "--format", "json")
    assert both.code == 1
    assert [f["ok"] for f in both.json["files"]] == [True, False]
    assert "2 files: 1 ok, 1 with faults" in cli("verify", tmp_path).out


@pytest.mark.parametrize("more", [(), ("--hash",), ("--data",)])
def test_a_missing_file_does_not_hide_the_others(cli, tmp_path: Path, more: tuple[str, ...]):
    bad = llama().truncate(-40).write(tmp_path / "b.gguf")
    result = cli("verify", tmp_path / "gone.gguf", bad, *more, "--format", "json")
    assert result.code == 2
    assert [f["problems"][0]["kind"] for f in result.json["files"]] == ["missing-file", "truncated"]
    assert [e["code"] for e in result.json["errors"]] == ["missing-file"]


def test_names_from_files_cannot_drive_the_terminal(cli, tmp_path: Path):
    model = GGUF("llama").tensor("a\x1b[2J", (32,)).truncate(-8)
    out = cli("verify", model.write(tmp_path / "m.gguf")).out
    assert "\x1b" not in out
    assert "a\\x1b[2J" in out


def test_reads_the_header_only(tmp_path: Path):
    """Case 143: a check before the start of a pod must cost milliseconds at any size."""
    model = llama()
    path = tmp_path / "m.gguf"
    big = model.copy().tensor("big", (1 << 20, 1 << 14), "q8_0", data=b"")
    path.write_bytes(big.header())
    os.truncate(path, len(big.header()) + (1 << 34) // 32 * 34 + 1_000_000)
    with within(1):
        report = quick(path)
    assert report.size > 1 << 34
    assert kinds(report) == ["excess"]
