"""Hashes against what they should be: lists, stores, manifests; and what a mismatch says."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from tests.build import GGUF, llama
from tests.verify.sets import three


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def verified(cli, *args: object):
    result = cli("verify", *args, "--format", "json")
    files = result.json["files"]
    return (
        result.code,
        [[p["kind"] for p in f["problems"]] for f in files],
        [[n["kind"] for n in f["notes"]] for f in files],
        files,
    )


class TestExpectations:
    @pytest.fixture
    def model(self, tmp_path: Path) -> Path:
        return llama().write(tmp_path / "m.gguf")

    def test_hex(self, cli, model: Path):
        good = sha(model.read_bytes())
        assert verified(cli, "--sha256", good.upper(), model)[:2] == (0, [[]])
        code, problems, _, files = verified(cli, "--sha256", "ab" * 32, model)
        assert (code, problems) == (1, [["hash-mismatch"]])
        assert files[0]["sha256"] == good
        assert cli("verify", "--sha256", "xyz", model).code == 2

    def test_one_hash_for_two_files_is_a_usage_error(self, cli, model: Path, tmp_path: Path):
        llama().write(tmp_path / "n.gguf")
        assert cli("verify", "--sha256", "ab" * 32, tmp_path).code == 2

    @pytest.mark.parametrize(
        "line",
        [
            "{}  m.gguf",
            "{} *m.gguf",
            "SHA256 (m.gguf) = {}",
            "SHA2-256(m.gguf)= {}",
            "{}",
            "sha256:{}",
            "{}  ./some/where/m.gguf",
        ],
    )
    def test_lists_of_every_dialect(self, cli, model: Path, tmp_path: Path, line: str):
        sums = tmp_path / "list"
        if "where" in line:
            (tmp_path / "some" / "where").mkdir(parents=True)
            model = model.rename(tmp_path / "some" / "where" / "m.gguf")
        sums.write_text("# comment\n" + line.format(sha(model.read_bytes())) + "\n")
        assert verified(cli, "--against", sums, model)[:2] == (0, [[]])
        sums.write_text(line.format("ab" * 32) + "\n")
        assert verified(cli, "--against", sums, model)[:2] == (1, [["hash-mismatch"]])

    def test_not_in_the_list(self, cli, model: Path, tmp_path: Path):
        sums = tmp_path / "list"
        sums.write_text("ab" * 32 + "  other.gguf\n" + "cd" * 32 + "  third.gguf\n")
        assert verified(cli, "--against", sums, model)[:2] == (1, [["not-listed"]])

    def test_list_of_one_file_fits_one_file_of_another_name(self, cli, model: Path, tmp_path: Path):
        sums = tmp_path / "list"
        sums.write_text(f"{sha(model.read_bytes())}  as-published.gguf\n")
        assert verified(cli, "--against", sums, model)[:2] == (0, [[]])
        llama().write(tmp_path / "n.gguf")
        assert verified(cli, "--against", sums, tmp_path)[:2] == (1, [["not-listed"], ["not-listed"]])

    def test_not_a_list(self, cli, model: Path, tmp_path: Path):
        sums = tmp_path / "list"
        sums.write_text("nothing here\n")
        assert cli("verify", "--against", sums, model).code == 3

    def test_sums_beside_are_found(self, cli, model: Path, tmp_path: Path):
        (tmp_path / "SHA256SUMS").write_text("ab" * 32 + "  m.gguf\n")
        assert verified(cli, "--hash", model)[:2] == (1, [["hash-mismatch"]])
        assert verified(cli, model)[:2] == (0, [[]])

    def test_nothing_to_compare_with_is_said(self, cli, model: Path):
        code, _, notes, files = verified(cli, "--hash", model)
        assert (code, notes) == (0, [["no-expectation"]])
        assert files[0]["sha256"] == sha(model.read_bytes())

    def test_lfs_pointer(self, cli, model: Path, tmp_path: Path):
        """Case 70: the pointer's oid and size check the file that was fetched."""
        data = model.read_bytes()
        pointer = tmp_path / "pointer"
        text = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"
        pointer.write_text(text.format(sha(data), len(data)))
        assert verified(cli, "--against", pointer, model)[:2] == (0, [[]])
        pointer.write_text(text.format(sha(data), len(data) + 1))
        assert verified(cli, "--against", pointer, model)[:2] == (1, [["hash-mismatch"]])

    def test_hugging_face_cache(self, cli, tmp_path: Path):
        """Case 146: blobs are named by their hash; snapshots are links to them. No network."""
        data = llama().bytes()
        repo = tmp_path / "models--o--r"
        (repo / "blobs").mkdir(parents=True)
        (repo / "snapshots" / "c0ffee").mkdir(parents=True)
        blob = repo / "blobs" / sha(data)
        blob.write_bytes(data)
        link = repo / "snapshots" / "c0ffee" / "m.gguf"
        link.symlink_to(blob)
        code, problems, notes, _ = verified(cli, "--hash", link)
        assert (code, problems, notes) == (0, [[]], [["hash-ok"]])
        blob.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        assert verified(cli, "--hash", link)[:2] == (1, [["hash-mismatch"]])

    def test_ollama_blob(self, cli, tmp_path: Path):
        """Case 76."""
        data = llama().bytes()
        (tmp_path / "blobs").mkdir()
        blob = tmp_path / "blobs" / f"sha256-{sha(data)}"
        blob.write_bytes(data)
        assert verified(cli, "--hash", blob)[:2] == (0, [[]])
        blob.write_bytes(data + b"\0" * 32)
        code, problems, _, files = verified(cli, "--hash", blob)
        assert (code, problems) == (1, [["excess", "hash-mismatch"]])
        assert "Ollama blob name" in files[0]["problems"][1]["message"]

    def test_download_note_of_huggingface_hub(self, cli, model: Path):
        notes = model.parent / ".cache" / "huggingface" / "download"
        notes.mkdir(parents=True)
        (notes / "m.gguf.metadata").write_text(f"{'c' * 40}\n{'ab' * 32}\n1700000000.0\n")
        assert verified(cli, "--hash", model)[:2] == (1, [["hash-mismatch"]])

    def test_empty_file_hash_is_known_by_name(self, cli, model: Path):
        code, _, _, files = verified(cli, "--sha256", hashlib.sha256().hexdigest(), model)
        assert code == 1
        assert "hash of an empty file" in files[0]["problems"][0]["message"]
        model.write_bytes(b"")
        result = cli("verify", "--sha256", sha(b"x"), model)
        assert result.code == 3
        assert "the hash of an empty file" in result.out

    def test_published_file_with_something_behind_it(self, cli, model: Path):
        """Case 74: the prefix is tried too."""
        data = model.read_bytes()
        with open(model, "ab") as f:
            f.write(os.urandom(1000))
        code, _, _, files = verified(cli, "--sha256", sha(data), model)
        assert code == 1
        fault = files[0]["problems"][1]
        assert f"its first {len(data):,} bytes are exactly that file" in fault["message"]
        assert fault["hint"] == f"truncate -s {len(data)} {model}"

    def test_download_that_was_restarted_behind_its_beginning(self, cli, model: Path):
        data = model.read_bytes()
        model.write_bytes(data[:60000] + data)
        code, _, _, files = verified(cli, "--sha256", sha(data), model)
        assert code == 1
        assert "from byte 60,000 on it is exactly that file" in files[0]["problems"][1]["message"]


class TestManifest:
    @pytest.fixture
    def model(self, tmp_path: Path) -> Path:
        return llama().write(tmp_path / "m.gguf")

    @pytest.fixture
    def manifest(self, cli, model: Path, tmp_path: Path) -> Path:
        path = tmp_path / "list.txt"
        assert cli("verify", "--write-manifest", path, model).code == 0
        return path

    def test_sha256sum_takes_it(self, manifest: Path):
        done = subprocess.run(
            ["sha256sum", "--strict", "-c", manifest.name], cwd=manifest.parent, capture_output=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, b"m.gguf: OK\n"), done.stderr

    def test_set(self, cli, tmp_path: Path):
        paths = three(tmp_path)
        path = tmp_path / "list"
        cli("verify", "--write-manifest", path, paths[0])
        done = subprocess.run(["sha256sum", "-c", path], cwd=tmp_path, capture_output=True, check=False)
        assert done.stdout.count(b"OK") == 3
        assert verified(cli, "--against", path, paths[2])[0] == 0

    def test_a_model_is_no_list(self, cli, model: Path):
        other = llama().write(model.parent / "other.gguf")
        result = cli("verify", "--against", other, model)
        assert result.code == 3
        assert "is a model, not a list of hashes" in result.err
        assert f"gguftool diff --data '…' {other}" in result.err

    def test_is_written_over_nothing_else(self, cli, model: Path, manifest: Path):
        notes = model.parent / "notes.txt"
        notes.write_text("keep me\n")
        for other in (model, notes):
            before = other.read_bytes()
            result = cli("verify", "--write-manifest", other, model)
            assert result.code == 4
            assert "is no manifest" in result.err
            assert other.read_bytes() == before
        assert cli("verify", "--write-manifest", manifest, model).code == 0

    def test_names_the_bad_tensors_and_their_bytes(self, cli, model: Path, manifest: Path):
        report = cli("hash", "--tensors", "--format", "json", model).json["files"][0]["tensors"]
        spans = {t["name"]: (t["start"], t["end"]) for t in report}
        data = bytearray(model.read_bytes())
        for name in ("output_norm.weight", "blk.0.ffn_up.weight"):
            data[spans[name][0] + 5] ^= 4
        model.write_bytes(data)
        code, problems, _, files = verified(cli, "--against", manifest, model)
        assert (code, problems) == (1, [["hash-mismatch", "tensor-differs", "tensor-differs"]])
        assert [(d["name"], d["start"], d["end"]) for d in files[0]["damage"]] == [
            (name, *spans[name]) for name in ("output_norm.weight", "blk.0.ffn_up.weight")
        ]

    def test_change_of_metadata_leaves_the_data_alone(self, cli, model: Path, manifest: Path):
        """Case 145: after a metadata fix only file and header differ."""
        llama().kv("general.description", "edited").write(model)
        code, problems, _, files = verified(cli, "--against", manifest, model)
        assert (code, problems) == (1, [["hash-mismatch", "metadata-changed"]])
        assert "the tensor data is the same" in files[0]["problems"][0]["message"]

    def test_bit_in_the_padding(self, cli, tmp_path: Path):
        model = GGUF("llama").tensor("a", (3,)).tensor("b", (32,))
        path = model.write(tmp_path / "p.gguf")
        listed = tmp_path / "l"
        cli("verify", "--write-manifest", listed, path)
        data = bytearray(path.read_bytes())
        data[len(model.header()) + 15] ^= 1
        path.write_bytes(data)
        assert verified(cli, "--against", listed, path)[1] == [["hash-mismatch", "data-differs"]]

    def test_tensor_lists_must_agree(self, cli, model: Path, manifest: Path):
        llama().drop_tensor("blk.0.ffn_up.weight").tensor("new", (32,)).write(model)
        kinds = verified(cli, "--against", manifest, model)[1][0]
        assert {"tensor-missing", "tensor-extra", "hash-mismatch"} <= set(kinds)

    def test_output_of_llama_gguf_hash_is_a_list_too(self, cli, model: Path, tmp_path: Path):
        listed = tmp_path / "x"
        listed.write_text(cli("hash", "--format", "gguf-hash", "--algorithm", "xxh64", model).out)
        assert verified(cli, "--against", listed, model)[:2] == (0, [[]])
        data = bytearray(model.read_bytes())
        data[-1] ^= 1
        model.write_bytes(data)
        assert verified(cli, "--against", listed, model)[1] == [["tensor-differs"]]

    def test_damaged_manifest(self, cli, model: Path, manifest: Path):
        manifest.write_text(manifest.read_text().replace('"bytes"', '"byt"'))
        assert cli("verify", "--against", manifest, model).code == 3


def test_two_reads_that_disagree(cli, tmp_path: Path, monkeypatch):
    """Case 76: the file changes between the reads and nothing of its size or time tells; then it is RAM or disk."""
    from gguftool.verify import compare

    path = llama().write(tmp_path / "m.gguf")
    before = path.stat()
    real = compare.hash_file

    def flipped(*args, **kwargs):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        return real(*args, **kwargs)

    monkeypatch.setattr(compare, "hash_file", flipped)
    code, problems, _, files = verified(cli, "--sha256", "ab" * 32, path)
    assert (code, problems) == (1, [["reads-differ", "hash-mismatch"]])
    assert "suspect RAM or disk" in files[0]["problems"][0]["message"]
