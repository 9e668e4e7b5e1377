"""Twenty-eight small files, one by one: exit code, the finding that names the fault, and the predicted load."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.badfiles import HASH, files

FILES = files()
# Every base file lacks a norm epsilon and a tokenizer model, so b11434 refuses even the healthy one.
COMMON = {"required-key-missing", "tokenizer-model-missing"}

# name -> exit code, rules that must be among the errors, rules that must be among the warnings
VERDICTS: dict[str, tuple[int, set[str], set[str]]] = {
    "00_ok": (1, set(), set()),
    "04_trunc_header": (3, {"header-breaks-off"}, set()),
    "05_trunc_data": (1, {"data-truncated"}, set()),
    "06_big_endian": (1, {"byte-order"}, set()),
    "07_dup_key": (1, {"key-duplicate"}, set()),
    "08_bool_2": (1, {"bool-byte"}, set()),
    "09_nested_array": (1, {"nested-array"}, set()),
    "10_type99": (1, {"tensor-type-unknown"}, set()),
    "11_huge_kv_count": (3, {"count-impossible"}, set()),
    "12_huge_strlen": (3, {"header-breaks-off"}, set()),
    "13_huge_array": (3, {"header-breaks-off"}, set()),
    "14_overlap": (1, {"tensor-offset-overlap"}, set()),
    "15_misaligned": (1, {"tensor-offset-misaligned"}, set()),
    "16_dup_tensor": (1, {"tensor-duplicate"}, set()),
    "17_badutf8_key": (1, {"key-not-utf8"}, set()),
    "18_badutf8_value": (1, set(), {"value-not-utf8"}),
    "19_gguf_v1": (1, {"version-unsupported"}, set()),
    "20_gguf_v4": (3, {"version-unsupported"}, set()),
    "21_eos_out_of_range": (1, {"special-id-out-of-range"}, set()),
    "22_block_count_wrong": (1, {"block-count-tensors"}, set()),
    "23_ansi_in_name": (1, set(), {"control-characters"}),
    "24_align_33": (1, {"alignment-invalid"}, set()),
    "25_trailing": (1, set(), {"trailing-bytes"}),
    "26_elem_overflow": (1, {"tensor-size-overflow"}, set()),
    "27_header_only": (1, {"data-truncated"}, set()),
}
# name -> what it is called
NO_GGUF = {
    "01_empty": "the file is empty",
    "02_lfs_pointer": f"a Git LFS pointer; the real file has 4,683,073,504 bytes, sha256 {HASH}",
    "03_html": 'an HTML page ("Sign in")',
}


def test_table_is_complete() -> None:
    assert set(VERDICTS) | set(NO_GGUF) == set(FILES)
    assert len(FILES) == 28


@pytest.mark.parametrize("name", VERDICTS)
def test_verdict(name: str, tmp_path: Path, cli) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / f"{name}.gguf"
    path.write_bytes(FILES[name])
    code, errors, warnings = VERDICTS[name]
    result = cli("lint", path, "--format", "json", "--no-config")
    assert result.code == code
    (file,) = result.json["files"]
    assert file["readable"] is (code != 3)
    found = {s: {f["rule"] for f in file["findings"] if f["severity"] == s} for s in ("error", "warning")}
    assert errors <= found["error"]
    assert warnings <= found["warning"]
    if name == "00_ok":
        assert found["error"] == COMMON
    assert file["load"]["verdict"] == "refused"
    assert (result.json["errors"] == []) is (code != 3)


@pytest.mark.parametrize("name", NO_GGUF)
def test_no_gguf(name: str, tmp_path: Path, cli) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / f"{name}.gguf"
    path.write_bytes(FILES[name])
    result = cli("lint", path, "--format", "json", "--no-config")
    assert result.code == 3
    (error,) = result.json["errors"]
    assert error["code"] == "not-gguf"
    assert NO_GGUF[name] in error["message"]
    (file,) = result.json["files"]
    assert file["findings"] == []
    assert file["load"] is None
    text = cli("lint", path, "--no-config")
    assert text.code == 3
    assert NO_GGUF[name] in text.out


def test_terminal_is_safe(tmp_path: Path, cli) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "ansi.gguf"
    path.write_bytes(FILES["23_ansi_in_name"])
    result = cli("lint", path, "--no-config")
    assert "\x1b" not in result.out
    assert "\\x1b[2J" in result.out
