"""Lists of hashes as other programs and people write them; what cannot be read never counts as absent."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.build import llama
from tests.verify.test_against import verified

NAME = "m.gguf"
OTHER = "0a" * 32


def _texts(h: str) -> dict[str, str]:
    """Dialect -> a list that gives ``h`` to m.gguf, as the program writes it."""
    upper = h.upper()
    spaced = " ".join(h[i : i + 2] for i in range(0, 64, 2))
    long = "C:\\Users\\ann\\Downloads\\models\\m.gguf"
    table = (
        "\r\nAlgorithm       Hash                                                                   Path\r\n"
        "---------       ----                                                                   ----\r\n"
    )
    tree = [
        {"type": "directory", "oid": "b" * 40, "size": 0, "path": "sub"},
        {"type": "file", "oid": "c" * 40, "size": 5, "path": "README.md"},
        {"type": "file", "oid": "d" * 40, "size": 7, "path": "other.gguf", "lfs": {"oid": OTHER, "size": 7}},
        {"type": "file", "oid": "e" * 40, "path": NAME, "lfs": {"oid": h, "pointerSize": 135}, "xetHash": "f" * 64},
    ]
    return {
        "gnu": f"{OTHER}  other.gguf\n{h}  {NAME}\n",
        "bsd": f"SHA256 (other.gguf) = {OTHER}\nSHA256 ({NAME}) = {h}\n",
        "openssl 1": f"SHA256({NAME})= {h}\n",
        "openssl 3": f"SHA2-256({NAME})= {h}\n",
        "certutil": f"SHA256 hash of {NAME}:\r\n{h}\r\nCertUtil: -hashfile command completed successfully.\r\n",
        "certutil of Windows 7": f"SHA256 hash of file {NAME}:\r\n{spaced}\r\nCertUtil: -hashfile\r\n",
        "Get-FileHash": (
            f"{table}SHA256          {OTHER.upper()}       C:\\x\\other.gguf\r\n"
            f"SHA256          {upper}       {long}\r\n"
        ),
        "Get-FileHash | Format-List": (
            f"\r\nAlgorithm : SHA256\r\nHash      : {OTHER.upper()}\r\nPath      : C:\\x\\other.gguf\r\n\r\n"
            f"Algorithm : SHA256\r\nHash      : {upper}\r\nPath      : C:\\Users\\ann\\Downloads\\mod\r\n"
            "            els\\m.gguf\r\n\r\n"
        ),
        "Get-FileHash | ConvertTo-Csv": f'"Algorithm","Hash","Path"\r\n"SHA256","{upper}","{long}"\r\n',
        "Export-Csv": (
            "#TYPE Microsoft.PowerShell.Commands.FileHashInfo\r\n"
            f'"Algorithm","Hash","Path"\r\n"SHA256","{upper}","{long}"\r\n'
        ),
        "csv, name first": f"file,sha256\nother.gguf,{OTHER}\n{NAME},{h}\n",
        "csv, semicolons": f"sha256;name\n{h};{NAME}\n",
        "csv without a title": f"{NAME},{h}\nother.gguf,{OTHER}\n",
        "sha256: first": f"sha256:{h}  {NAME}\nsha256:{OTHER}  other.gguf\n",
        "sha256: last": f"{NAME}  sha256:{h}\nother.gguf sha256:{OTHER}\n",
        "name first": f"other.gguf {OTHER}\n{NAME}: {h}\n",
        "markdown table": (
            f"| File | Size | SHA256 |\n|---|---|---|\n| `{NAME}` | 1.2 GB | `{h}` |\n| other.gguf | 3 GB | {OTHER} |\n"
        ),
        "markdown list": f"# Hashes\n\n- **{NAME}**: `{h}`\n- [other.gguf](https://x/other.gguf): {OTHER}\n",
        "the Hub's tree": json.dumps(tree),
        "json by name": json.dumps({"other.gguf": OTHER, NAME: h}),
        "json with rows": json.dumps({"files": [{"name": NAME, "sha256": h}, {"name": "other.gguf", "sha256": OTHER}]}),
        "json, digests": json.dumps({"files": {NAME: {"digest": f"sha256:{h}", "bytes": 3}, "o": {"digest": OTHER}}}),
        "siblings of the Hub": json.dumps(
            {"siblings": [{"rfilename": NAME, "blobId": "c" * 40, "lfs": {"sha256": h}}]}
        ),
    }


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return llama().write(tmp_path / NAME)


def _sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("dialect", sorted(_texts(OTHER)))
def test_a_dialect_tells_the_right_file_from_a_wrong_one(cli, model: Path, tmp_path: Path, dialect: str) -> None:
    beside = tmp_path / "SHA256SUMS"
    beside.write_text(_texts(_sha(model))[dialect], newline="")
    assert verified(cli, "--hash", model) == (0, [[]], [["hash-ok"]], verified(cli, "--hash", model)[3])
    beside.write_text(_texts("ab" * 32)[dialect], newline="")
    assert verified(cli, "--hash", model)[:2] == (1, [["hash-mismatch"]])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("dialect", ["gnu", "Get-FileHash", "csv, name first", "the Hub's tree"])
def test_the_encodings_that_windows_writes(cli, model: Path, tmp_path: Path, dialect: str, encoding: str) -> None:
    beside = tmp_path / f"{NAME}.sha256"
    beside.write_bytes(_texts(_sha(model))[dialect].encode(encoding))
    assert verified(cli, "--hash", model)[:2] == (0, [[]])
    beside.write_bytes(_texts("ab" * 32)[dialect].encode(encoding))
    assert verified(cli, "--hash", model)[:2] == (1, [["hash-mismatch"]])


def test_the_first_line_behind_a_byte_order_mark_counts(cli, model: Path, tmp_path: Path) -> None:
    (tmp_path / "SHA256SUMS").write_bytes(f"{'ab' * 32}  {NAME}\n{OTHER}  other.gguf\n".encode("utf-8-sig"))
    assert verified(cli, "--hash", model)[:2] == (1, [["hash-mismatch"]])


@pytest.mark.parametrize(
    "name",
    ["SHA256SUMS", "sha256.txt", "checksums.sha256", "Checksums.txt", "hashes.csv", "SHA256SUM", "m.gguf.sha256"],
)
def test_names_that_lists_have(cli, model: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(f"{'ab' * 32}  {NAME}\n")
    assert verified(cli, "--hash", model)[:2] == (1, [["hash-mismatch"]])


@pytest.mark.parametrize(
    "text",
    [
        b"\x00\xff\x12garbage" * 9,
        b"see the website\n",
        b"",
        f"{'ab' * 31}  {NAME}\n".encode(),
        f"one {'ab' * 32} and {'cd' * 32} in a line\n".encode(),
    ],
)
def test_what_cannot_be_read_is_not_absent(cli, model: Path, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "SHA256SUMS").write_bytes(text)
    code, problems, notes, _ = verified(cli, "--hash", model)
    assert (code, problems, notes) == (1, [["list-unread"]], [[]])


def test_a_line_that_cannot_be_read_may_be_about_the_file(cli, model: Path, tmp_path: Path) -> None:
    """Get-FileHash cuts a path that is too long for the window."""
    row = f"SHA256          {'AB' * 32}       C:\\Users\\a-very-long-na...\r\n"
    other = f"SHA256          {OTHER.upper()}       C:\\o.gguf\r\n"
    second = f"SHA256          {'CD' * 32}       C:\\Users\\another-long-...\r\n"
    (tmp_path / "SHA256SUMS").write_text(other + row + second, newline="")
    assert verified(cli, "--hash", model)[:2] == (1, [["list-unread"]])


def test_another_list_that_agrees_is_enough(cli, model: Path, tmp_path: Path) -> None:
    (tmp_path / "checksums.txt").write_text("see the website\n")
    (tmp_path / "SHA256SUMS").write_text(f"{_sha(model)}  {NAME}\n")
    code, problems, notes, _ = verified(cli, "--hash", model)
    assert (code, problems, sorted(notes[0])) == (0, [[]], ["hash-ok", "list-unread"])


@pytest.mark.parametrize(("kind", "digits"), [("md5", 32), ("sha1", 40), ("sha512", 128)])
def test_other_hashes_are_named(cli, model: Path, tmp_path: Path, kind: str, digits: int) -> None:
    """Meta's checklist.chk has md5."""
    beside = tmp_path / "checklist.chk"
    beside.write_text(f"{'a' * digits}  {NAME}\n")
    code, _, notes, files = verified(cli, "--hash", model)
    assert (code, sorted(notes[0])) == (0, ["no-expectation", "other-hash"])
    assert kind in next(n["message"] for n in files[0]["notes"] if n["kind"] == "other-hash")
    found = cli("verify", "--sums", beside, model)
    assert (found.code, f"its hashes are {kind}" in found.err) == (3, True)


def test_a_label_counts_more_than_the_number_of_digits(cli, model: Path, tmp_path: Path) -> None:
    """BLAKE3 and SHA3-256 have 64 digits, too."""
    (tmp_path / "checksums.txt").write_text(f"BLAKE3 ({NAME}) = {'ab' * 32}\nSHA3-256 (x) = {'ab' * 32}\n")
    code, _, notes, _ = verified(cli, "--hash", model)
    assert (code, sorted(notes[0])) == (0, ["no-expectation", "other-hash"])


def test_another_hash_on_the_command_line_is_named(cli, model: Path) -> None:
    found = cli("verify", "--sha256", "d41d8cd98f00b204e9800998ecf8427e", model)
    assert (found.code, "as many digits as an md5" in found.err) == (2, True)


def test_a_list_that_was_given_and_has_only_another_hash_of_it(cli, model: Path, tmp_path: Path) -> None:
    """The list that was named does not prove the file."""
    given = tmp_path / "given"
    given.write_text(f"{OTHER}  other.gguf\n{'a' * 32}  {NAME}\n")
    code, problems, notes, _ = verified(cli, "--sums", given, model)
    assert (code, problems, notes) == (1, [["not-listed"]], [["other-hash"]])
