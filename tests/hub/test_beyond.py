"""Files that fsspec opens: in memory, inside an archive on a web server, in a bucket of a real S3 server."""

from __future__ import annotations

import hashlib
import io
import json
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gguftool import hub
from gguftool.errors import MissingFile, ToolFailed, UsageError
from gguftool.hub import headers
from gguftool.hub.address import StoreAddress, parse
from tests.build import llama
from tests.hub.headers import header, vocabulary
from tests.hub.server import Site
from tests.verify.sets import pieces, typed

fsspec = pytest.importorskip("fsspec")
LONG = header(vocabulary("llama", 12_000), 3) + bytes(3 * 512)
SECRET = "wJalrXUtnFEMI-K7MDENG-bPxRfiCY"


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    """An S3 server in a process of its own."""
    pytest.importorskip("moto.server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


@pytest.fixture
def s3(moto: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of it, and the environment that drivers read."""
    import boto3

    for name, value in {
        "AWS_ENDPOINT_URL": moto,
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket="models")
    yield client
    for row in client.list_objects_v2(Bucket="models").get("Contents", []):
        client.delete_object(Bucket="models", Key=row["Key"])


def put(client: Any, **files: bytes) -> None:
    for name, data in files.items():
        client.put_object(Bucket="models", Key=name.replace("__", "/") + ".gguf", Body=data)


@pytest.mark.parametrize(
    ("spec", "yes"),
    [
        ("s3://b/x.gguf", True), ("S3://b/x", True), ("gs://b/x", True), ("abfs://c@a/x", True), ("sftp://h/x", True),
        ("memory://x", True), ("zip://x.gguf::https://h/y.zip", True), ("simplecache::https://h/x", True),
        ("docker://x", False), ("/a/b.gguf", False), ("x:y//z", False), ("file:///x", False), ("://x", False),
    ],
)  # fmt: skip
def test_which_addresses_are_meant(spec: str, yes: bool):
    assert isinstance(parse(spec, ""), StoreAddress) is yes if hub.is_remote(spec) else not yes


def test_a_header_is_read_no_further_than_it_reaches(memory, monkeypatch):
    memory.pipe("/models/x.gguf", LONG + bytes(50 << 20))
    asked: list[tuple[int, int]] = []
    before = type(memory).cat_file
    monkeypatch.setattr(
        type(memory),
        "cat_file",
        lambda self, path, start=None, end=None, **more: (
            asked.append((start, end)) or before(self, path, start, end, **more)
        ),
    )
    with hub.open_any("memory://models/x.gguf") as m:
        assert len(m["tokenizer.ggml.tokens"]) == 12_000
        assert m.name == "memory://models/x.gguf"
    assert asked[-1][1] <= 1.2 * len(LONG)
    assert len(asked) == 2


def test_every_command_that_reads(memory, cli):
    model = llama(tokens=40)
    memory.pipe("/models/x.gguf", model.bytes())
    memory.pipe("/models/y.gguf", model.copy().replace("general.name", "another").bytes())
    x, y = "memory://models/x.gguf", "memory://models/y.gguf"
    assert "tiny llama" in cli("dump", "--overview", x).out
    assert cli("dump", "--raw", "general.name", x).out.strip() == "tiny llama"
    assert cli("lint", "--format", "json", x).json["ok"] in (True, False)
    assert cli("verify", "--data", x).code == 0
    assert cli("compat", x).code == 0
    assert cli("plan", "--ctx", "512", "--ram", "8GiB", x).code == 0
    assert cli("diff", x, y).code == 1
    assert cli("explain", "general.name", "--model", x).code in (0, 2)
    assert cli("hash", x).out.split()[0] == hashlib.sha256(model.bytes()).hexdigest()
    [row] = [json.loads(line) for line in cli("scan", "--format", "jsonl", x).out.splitlines() if '"path"' in line]
    assert (row["path"], row["ok"]) == (x, True)


def test_shards_beside_it_are_found(memory):
    for no, shard in enumerate(pieces(typed("q4_0"), [20, 38]), 1):
        memory.pipe(f"/set/m-{no:05}-of-00003.gguf", shard.bytes())
    with hub.open_any("memory://set/m-00002-of-00003.gguf") as m:
        assert (m.shard_count, len(m.parts)) == (3, 3)


def test_a_folder_is_one_model_or_the_choice(memory, cli):
    memory.pipe("/one/a/x.gguf", llama().bytes())
    with hub.open_any("memory://one/") as m:
        assert m.name == "memory://one/a/x.gguf"
    with hub.open_any("memory://one") as m:
        assert m.architecture == "llama"
    memory.pipe("/one/y.gguf", llama().bytes())
    with pytest.raises(UsageError, match=r"several models: memory://one/a/x.gguf, memory://one/y.gguf"):
        hub.open_any("memory://one")
    assert [entry.path for entry in hub.entries("memory://one/")] == ["memory://one/a/x.gguf", "memory://one/y.gguf"]
    rows = [json.loads(line) for line in cli("scan", "--format", "jsonl", "memory://one").out.splitlines()]
    assert sorted(row["path"] for row in rows if "path" in row) == ["memory://one/a/x.gguf", "memory://one/y.gguf"]
    with pytest.raises(MissingFile):
        hub.entries("memory://nowhere/")


@pytest.mark.parametrize("command", [("fix", "--set", "general.name=x"), ("split", "--max-tensors", "2"), ("undo",)])
def test_what_writes_asks_for_a_local_file_and_says_how(memory, cli, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memory.pipe("/models/x.gguf", llama().bytes())
    result = cli(command[0], *command[1:], "memory://models/x.gguf")
    assert result.code == 2
    assert "is not on this machine" in result.err
    assert "fetch it first: python3 -c" in result.err


def test_the_command_that_fetches_runs(s3, tmp_path: Path):
    from gguftool.hub.beyond import fetching

    assert "x.gguf" in fetching("s3://models/x.gguf")
    shards = {f"m-{no:05}-of-00003": s.bytes() for no, s in enumerate(pieces(typed("q4_0"), [20, 38]), 1)}
    put(s3, **shards)
    words = fetching("s3://models/m-00002-of-00003.gguf").replace("python3", sys.executable, 1)
    subprocess.run(words, shell=True, check=True, cwd=tmp_path)
    assert {path.stem: path.read_bytes() for path in tmp_path.glob("m-*.gguf")} == shards


def test_inside_an_archive_on_a_web_server(site: Site):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("in/x.gguf", llama().bytes())
    site.files["/a.zip"] = made.getvalue()
    with hub.open_any(f"zip://in/x.gguf::{site.url}/a.zip") as m:
        assert m.architecture == "llama"
        assert m.file_size == len(llama().bytes())


def test_a_bucket(s3, cli):
    put(s3, a__x=LONG, a__y=llama().bytes(), z=llama().bytes())
    assert "12,000" in cli("dump", "--overview", "s3://models/a/x.gguf").out
    assert cli("hash", "s3://models/a/x.gguf").out.split()[0] == hashlib.sha256(LONG).hexdigest()
    assert [(entry.path, entry.size) for entry in hub.entries("s3://models/a/")] == [
        ("s3://models/a/x.gguf", len(LONG)),
        ("s3://models/a/y.gguf", len(llama().bytes())),
    ]
    rows = [json.loads(line) for line in cli("scan", "--format", "jsonl", "s3://models").out.splitlines()]
    assert [row["path"] for row in rows if row.get("ok")] == ["s3://models/a/y.gguf", "s3://models/z.gguf"]
    assert [row["path"] for row in rows if row.get("ok") is False] == ["s3://models/a/x.gguf"]


def test_a_header_in_a_bucket_is_kept_by_its_tag(s3, monkeypatch, tmp_path: Path):
    monkeypatch.setenv(headers.VARIABLE, str(tmp_path / "headers"))
    put(s3, x=LONG)
    hub.open_any("s3://models/x.gguf").close()
    import s3fs

    def never(*args: object, **more: object) -> None:
        raise AssertionError("read again")

    with monkeypatch.context() as patch:
        patch.setattr(s3fs.S3FileSystem, "_cat_file", never)
        with hub.open_any("s3://models/x.gguf") as m:
            assert len(m["tokenizer.ggml.tokens"]) == 12_000
    put(s3, x=llama().bytes())
    with hub.open_any("s3://models/x.gguf") as m:
        assert len(m["tokenizer.ggml.tokens"]) == 291


def test_what_is_not_there_or_not_allowed(s3, cli, monkeypatch):
    put(s3, empty=b"", text=b"hello, this is no model at all")
    assert cli("dump", "s3://models/none.gguf").code == 2
    assert "no such file, bucket or folder" in cli("dump", "s3://nowhere/none.gguf").err
    assert cli("dump", "s3://models/empty.gguf").code == cli("dump", "s3://models/text.gguf").code == 3
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    fsspec.filesystem("s3").clear_instance_cache()
    result = cli("dump", "s3://models/text.gguf")
    assert result.code == 6
    assert "no access" in result.err
    assert "Traceback" not in result.err


def test_no_credentials_are_shown(monkeypatch, cli):
    monkeypatch.setenv("SFTP_PASSWORD", "hunter2hunter2")
    from gguftool.hub import beyond

    def fail(address: str) -> None:
        raise OSError(f"cannot log in to {address} with hunter2hunter2")

    monkeypatch.setattr("fsspec.core.url_to_fs", fail)
    with pytest.raises(ToolFailed) as caught:
        hub.open_any("sftp://me:sesame@host/x.gguf")
    assert "sesame" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "sesame" not in beyond.fetching("sftp://me:sesame@host/x.gguf")


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("s3://b/x.gguf", "pip install 'gguftool[remote]'"), ("smb://h/x.gguf", "pip install smbprotocol"),
    ],
)  # fmt: skip
def test_without_its_driver_pip_is_named(spec: str, hint: str, monkeypatch):
    def fail(address: str) -> None:
        raise ImportError("Install it")

    monkeypatch.setattr("fsspec.core.url_to_fs", fail)
    with pytest.raises(ToolFailed) as caught:
        hub.open_any(spec)
    assert caught.value.hint == hint


def test_without_fsspec_pip_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ToolFailed, match="fsspec, which is not installed") as caught:
        hub.open_any("s3://b/x.gguf")
    assert caught.value.hint == "pip install 'gguftool[remote]'"


def test_a_driver_that_hangs_is_given_up(memory, monkeypatch):
    from gguftool.hub import beyond

    monkeypatch.setattr(beyond, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(beyond, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(type(memory), "info", lambda *a, **k: time.sleep(5))
    with pytest.raises(ToolFailed, match="too slow"):
        hub.open_any("memory://models/x.gguf")


def test_a_file_that_shrinks_meanwhile(memory):
    memory.pipe("/models/x.gguf", LONG)
    source = hub.open_source("memory://models/x.gguf")
    assert source.size == len(LONG)
    memory.pipe("/models/x.gguf", LONG[:1000])
    with pytest.raises(ToolFailed, match="sent"):
        source.read_at(200_000, 100)
    source.close()
