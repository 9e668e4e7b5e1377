"""Hashes: right by hashlib, sha256sum and gguf-py; expectations of every kind; what a mismatch says."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import xxhash

from gguftool.errors import ToolFailed
from gguftool.model import open_model
from gguftool.source import Memory
from gguftool.verify import digests
from gguftool.verify.hashes import FILE, FileHashes, Want, hash_file, hash_files
from gguftool.verify.stream import CHUNK, INLINE, run
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
        file = cli("hash", "--tensors", "--data-section", path, "--format", "json").json["files"][0]
        data = path.read_bytes()
        assert file["sha256"] == sha(data)
        assert file["data"]["sha256"] == sha(data[len(model.header()) :])
        first = file["tensors"][0]
        assert first["sha256"] == sha(data[first["start"] : first["end"]])

    def test_folder(self, cli, tmp_path: Path):
        paths = three(tmp_path)
        other = llama().write(tmp_path / "other.gguf")
        lines = cli("hash", tmp_path).out.splitlines()
        assert sorted(line.split()[1] for line in lines) == sorted(map(str, [*paths, other]))

    def test_not_a_gguf(self, cli, tmp_path: Path):
        path = tmp_path / "x.bin"
        path.write_bytes(b"hello")
        assert cli("hash", path).out.startswith(sha(b"hello"))
        assert cli("hash", path, "--format", "json").json["files"][0]["sha256"] == sha(b"hello")
        assert cli("hash", "--tensors", path).code == 3

    def test_data_section_survives_an_edit_of_metadata(self, cli, tmp_path: Path):
        a = llama().write(tmp_path / "a.gguf")
        b = llama().kv("general.description", "longer " * 50).write(tmp_path / "b.gguf")
        lines = [cli("hash", "--data-section", p).out.splitlines() for p in (a, b)]
        assert lines[0][0].split()[0] != lines[1][0].split()[0]
        assert lines[0][1].split()[0] == lines[1][1].split()[0]


def test_file_that_changes_while_it_is_read(tmp_path: Path):
    from gguftool.errors import ChangedMeanwhile

    path = tmp_path / "f"
    path.write_bytes(bytes(INLINE + 3 * CHUNK))

    def grow(_n: int) -> None:
        with open(path, "ab") as f:
            f.write(b"x")

    with pytest.raises(ChangedMeanwhile):
        hash_file(path, progress=grow)


@pytest.mark.parametrize("tails", [(), (5, 7)], ids=["one hash", "three"])
def test_a_short_disk_read_stops_all_threads(tmp_path: Path, tails: tuple[int, ...]):
    from gguftool.errors import ChangedMeanwhile

    path = llama().write(tmp_path / "m.gguf")
    with open(path, "ab") as f:
        f.write(bytes(INLINE + 20 * CHUNK))
    before = threading.active_count()
    with pytest.raises(ChangedMeanwhile):
        hash_file(path, Want(tails=tails), progress=lambda n: os.truncate(path, CHUNK))
    assert threading.active_count() == before


@pytest.mark.parametrize("which", [0, 1])
def test_what_a_sink_raises_ends_all(which: int):
    """Of the one that works in the thread that reads, and of the one that does not."""

    class Sink:
        def __init__(self, bad: bool) -> None:
            self.bad = bad

        def feed(self, data: memoryview, offset: int) -> None:
            if self.bad and offset >= INLINE:
                raise OSError(28, "no space")

    before = threading.active_count()
    with pytest.raises(OSError, match="no space"):
        run(Memory(bytes(INLINE + 20 * CHUNK)), [Sink(which == 0), Sink(which == 1)])
    assert threading.active_count() == before


def test_a_part_is_hashed_as_its_file(large):
    """Its header is not read again, its file stays open."""
    path, _ = large
    want = Want(tensors=True, data=True)
    with open_model(path) as model:
        part = model.parts[0]
        again, listed = hash_file(part, want), hash_files([part], want)
        assert part.source.read_at(0, 4) == b"GGUF"
    assert [again] == listed == [hash_file(path, want)]


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
            start = time.process_time()
            function()
            times.append(time.process_time() - start)
        return min(times)

    def plain() -> None:
        with open(path, "rb") as f:
            hashlib.file_digest(f, "sha256")

    assert best(lambda: hash_file(path)) < 2 * best(plain) + 0.05


@pytest.mark.parametrize("how", ["--hash", "--data", "hash"])
def test_ctrl_c_stops_at_once(tmp_path: Path, how: str):
    """A file that takes minutes; nothing of it may be waited for. What is a hole is not seen: it would take none."""
    import signal
    import time

    path = tmp_path / "m.gguf"
    model = GGUF("llama").tensor("w", (1 << 20, 1 << 16), "f32", data=b"")
    path.write_bytes(model.header())
    os.truncate(path, len(model.header()) + (1 << 38))
    script = (
        "import sys; from gguftool.source import LocalFile; from gguftool.cli.main import main\n"
        "LocalFile.hole = lambda self, start: (self.size, self.size)\n"
        "sys.exit(main())"
    )
    command = [
        sys.executable,
        "-c",
        script,
        *(["hash", "--tensors"] if how == "hash" else ["verify", how]),
        str(path),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        time.sleep(1.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == b"error: interrupted\n"
