"""Hashes: right by hashlib, sha256sum and gguf-py; expectations of every kind; what a mismatch says."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import xxhash

from gguftool.errors import ToolFailed
from gguftool.verify import digests
from gguftool.verify.hashes import FILE, FileHashes, Want, hash_file, hash_files
from gguftool.verify.stream import CHUNK, INLINE
from tests.build import GGUF, llama
from tests.verify.sets import three


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def big() -> GGUF:
    """More than a few chunks, so that the threads are at work; tensors that no chunk border fits."""
    model = llama()
    for i in range(5):
        model.tensor(f"blk.{i}.big", (4096, 300 + i), "q8_0", data=os.urandom(4096 * (300 + i) // 32 * 34))
    return model


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> tuple[Path, GGUF]:
    model = big()
    return model.write(tmp_path_factory.mktemp("h") / "m.gguf"), model


def test_one_pass_gives_all_hashes(large):
    path, model = large
    data = path.read_bytes()
    assert len(data) > INLINE + CHUNK
    found = hash_file(path, Want(tensors=True, data=True, model=True, algorithms=("sha256", "xxh64", "sha1")))
    header = len(model.header())
    assert found.file == sha(data)
    assert found.header == sha(data[:header])
    assert found.data == sha(data[header : found.data_end])
    assert [t.name for t in found.tensors] == [t["name"] for t in model._tensors]
    contents = [model.data_of(t) for t in model._tensors]
    for t, content in zip(found.tensors, contents, strict=True):
        assert data[t.start : t.end] == content
        assert t.digests == {
            "sha256": sha(content),
            "xxh64": xxhash.xxh64(content).hexdigest(),
            "sha1": hashlib.sha1(content).hexdigest(),
        }
    assert found.model["sha256"] == sha(b"".join(contents))


@pytest.mark.parametrize("size", [0, 1, CHUNK, INLINE, INLINE + 1, INLINE + CHUNK + 5])
def test_any_size(tmp_path: Path, size: int):
    path = tmp_path / "f"
    path.write_bytes(os.urandom(size))
    marks = (1, CHUNK - 1, CHUNK, INLINE, INLINE + 1)
    found = hash_file(path, Want(marks=marks))
    data = path.read_bytes()
    assert found.file == sha(data)
    assert found.prefix == {m: sha(data[:m]) for m in marks if m <= size}


def test_progress_counts_every_byte(large):
    path, _ = large
    counted: list[int] = []
    hash_file(path, progress=counted.append)
    assert sum(counted) == path.stat().st_size


def test_overlapping_tensors_get_their_own_bytes(tmp_path: Path):
    model = GGUF("llama").tensor("a", (64,)).tensor("b", (64,)).gap("b", -128)
    path = model.write(tmp_path / "m.gguf")
    data = path.read_bytes()[len(model.header()) :]
    a, b = hash_file(path, Want(tensors=True)).tensors
    assert (a.digests["sha256"], b.digests["sha256"]) == (sha(data[:256]), sha(data[128:384]))


def test_tensor_cut_off_has_no_hash(tmp_path: Path):
    path = GGUF("llama").tensor("a", (64,)).tensor("b", (64,)).truncate(-8).write(tmp_path / "m.gguf")
    a, b = hash_file(path, Want(tensors=True)).tensors
    assert a.digests
    assert not b.digests


def test_many_files_at_once(tmp_path: Path):
    paths = [tmp_path / f"{i}.gguf" for i in range(9)]
    for path in paths:
        path.write_bytes(os.urandom(100_000))
    found = hash_files([str(p) for p in [*paths, tmp_path / "none"]], FILE)
    assert [f.file for f in found[:-1] if isinstance(f, FileHashes)] == [sha(p.read_bytes()) for p in paths]
    assert "no such file" in str(found[-1])


def test_system_xxhash_or_a_clear_word():
    """Without the xxhash package: the system's library, or how to get one."""
    try:
        make = digests._system_xxh64()
    except ToolFailed as error:
        hint = error.hint or ""
        if "pip install" in hint:
            pytest.skip("no libxxhash on this machine")
        raise
    for data in (b"", b"a", os.urandom(100_001)):
        digest = make()
        digest.update(data[:7])
        digest.update(memoryview(bytearray(data[7:])))
        assert digest.hexdigest() == xxhash.xxh64(data).hexdigest()


class TestCommand:
    def test_sha256sum_takes_the_output(self, cli, tmp_path: Path):
        paths = three(tmp_path)
        odd = llama().write(tmp_path / "with\\back\nslash.gguf")
        sums = tmp_path / "SHA256SUMS"
        sums.write_text(cli("hash", paths[1], odd).out)
        done = subprocess.run(["sha256sum", "-c", sums], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.count("OK")) == (0, 4), done.stderr

    def test_as_gguf_py_prints_it(self, cli, tmp_path: Path):
        model = llama().tensor("blk.0.attention.bias", (32,))
        path = model.write(tmp_path / "m.gguf")
        command = [sys.executable, "-m", "gguf.scripts.gguf_hash", str(path)]
        theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        ours = cli(
            "hash", "--format", "gguf-hash", "--algorithm", "sha1", "--algorithm", "sha256", path
        ).out.splitlines()
        assert ours == [line for line in theirs if not line.startswith("uuid")]

    def test_as_llama_gguf_hash_prints_it(self, cli, gemma3):
        """The totals as llama-gguf-hash b11434 printed them for this very file."""
        out = cli("hash", "--format", "gguf-hash", "--algorithm", "xxh64", "--algorithm", "sha256", gemma3).out
        assert f"xxh64     4e56ea4d7ef2fef2  {gemma3}" in out
        assert f"sha256    f6c5edb9500ce23fdc8e99b58e784a64747d73a83a2f04cc0f128bccaf544239  {gemma3}" in out
        assert f"xxh64     2787af97974993fe  {gemma3}:output_norm.weight" in out
        assert len(out.splitlines()) == 2 * 237

    def test_json(self, cli, tmp_path: Path):
        model = llama()
        path = model.write(tmp_path / "m.gguf")
        file = cli("hash", "--tensors", path, "--format", "json").json["files"][0]
        data = path.read_bytes()
        assert file["sha256"] == sha(data)
        assert file["data"]["sha256"] == sha(data[len(model.header()) :])
        first = file["tensors"][0]
        assert first["sha256"] == sha(data[first["start"] : first["end"]])

    def test_not_a_gguf(self, cli, tmp_path: Path):
        path = tmp_path / "x.bin"
        path.write_bytes(b"hello")
        assert cli("hash", path).out.startswith(sha(b"hello"))
        assert cli("hash", "--tensors", path).code == 3

    def test_data_section_survives_an_edit_of_metadata(self, cli, tmp_path: Path):
        a = llama().write(tmp_path / "a.gguf")
        b = llama().kv("general.description", "longer " * 50).write(tmp_path / "b.gguf")
        lines = [cli("hash", "--data-section", p).out.splitlines() for p in (a, b)]
        assert lines[0][0].split()[0] != lines[1][0].split()[0]
        assert lines[0][1].split()[0] == lines[1][1].split()[0]


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


def test_file_that_changes_while_it_is_read(tmp_path: Path):
    from gguftool.errors import ChangedMeanwhile

    path = tmp_path / "f"
    path.write_bytes(bytes(INLINE + 3 * CHUNK))

    def grow(_n: int) -> None:
        with open(path, "ab") as f:
            f.write(b"x")

    with pytest.raises(ChangedMeanwhile):
        hash_file(path, progress=grow)


def test_a_short_disk_read_stops_all_threads(tmp_path: Path):
    from gguftool.errors import ChangedMeanwhile

    path = tmp_path / "f"
    path.write_bytes(bytes(INLINE + 20 * CHUNK))
    with pytest.raises(ChangedMeanwhile):
        hash_file(path, progress=lambda n: os.truncate(path, CHUNK))


def test_speed_is_that_of_hashlib(large, tmp_path: Path):
    """Generous: a busy machine must not fail it. The real numbers come from benchmarks/hash.py."""
    import time

    path = tmp_path / "big"
    shutil.copy(large[0], path)
    for _ in range(4):
        with open(path, "ab") as f:
            f.write(large[0].read_bytes())

    def best(function) -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            function()
            times.append(time.perf_counter() - start)
        return min(times)

    def plain() -> None:
        with open(path, "rb") as f:
            hashlib.file_digest(f, "sha256")

    assert best(lambda: hash_file(path)) < 2 * best(plain) + 0.05
