"""What a file is when it is no GGUF: named, with the facts found and what helps."""

from __future__ import annotations

import re

from gguftool.errors import GgufToolError, InterruptedEdit, NotGguf
from gguftool.format.types import MAGIC
from gguftool.shell import gguftool, path_word

HEAD = 4096
"""Bytes of the file's start that `identify` wants to see."""

POISONED_MAGIC = b"GGTX"
"""First bytes of a file that gguftool is in the middle of editing; no reader loads it."""

_LFS = re.compile(rb"oid sha256:([0-9a-f]{64})\s+size (\d+)")

# First bytes -> (kind, what it is, hint)
_MAGICS: tuple[tuple[bytes, str, str, str | None], ...] = (
    (b"lmgg", "ggml", "an old GGML file (2023, before GGUF)", "convert the original model again"),
    (b"fmgg", "ggml", "an old GGMF file (2023, before GGUF)", "convert the original model again"),
    (b"tjgg", "ggml", "an old GGJT file (2023, before GGUF)", "convert the original model again"),
    (b"algg", "ggml", "an old GGLA LoRA adapter (before GGUF)", "convert the adapter again"),
    (b"FUGG", "swapped", "a GGUF file with its magic byte-swapped", None),
    (b"PK\x03\x04", "zip", "a zip archive (PyTorch checkpoints are zip files too)", "unpack or convert it first"),
    (b"\x1f\x8b", "gzip", "gzip-compressed", "unpack it first: gunzip"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd-compressed", "unpack it first: zstd -d"),
    (b"\xfd7zXZ\x00", "xz", "xz-compressed", "unpack it first: unxz"),
    (b"BZh", "bzip2", "bzip2-compressed", "unpack it first: bunzip2"),
    (b"7z\xbc\xaf\x27\x1c", "7z", "a 7-Zip archive", "unpack it first"),
    (b"\x7fELF", "program", "a program (ELF), not a model", None),
    (b"MZ", "program", "a Windows program, not a model", None),
    (b"%PDF", "pdf", "a PDF document", None),
    (b"\x89HDF", "hdf5", "an HDF5 file (Keras checkpoint)", None),
    (b"\x80\x02", "pickle", "a Python pickle (old PyTorch checkpoint)", "convert it first"),
    (b"\x80\x04", "pickle", "a Python pickle (old PyTorch checkpoint)", "convert it first"),
)


def identify(head: bytes, size: int, name: str, journaled: bool = False) -> GgufToolError | None:
    """What the file is, as an error ready to raise; None when it starts with the GGUF magic.

    Args:
        head: the first `HEAD` bytes (or all, when there are fewer).
        size: length of the whole file in bytes.
        name: path for the message.
        journaled: the journal of an edit lies beside the file, which then may start with zeros as well.
    """
    if head[:4] == MAGIC:
        return None
    if head[:4] == POISONED_MAGIC or journaled:
        return InterruptedEdit(
            f"{name}: an edit of this file was interrupted; it cannot be loaded in this state",
            gguftool("recover", path_word(name)),
        )
    kind, what, hint, facts = _name(head, size)
    return NotGguf(f"{name}: not a GGUF file: {what}", hint, kind=kind, facts=facts)


def _name(head: bytes, size: int) -> tuple[str, str, str | None, dict[str, object]]:
    if size == 0:
        return "empty", "the file is empty", "download it again", {}
    if not head.strip(b"\0"):
        hint = "the download did not finish or the disk was full: download it again"
        return "zeros", f"it starts with {len(head):,} zero bytes (header never written)", hint, {}
    if head.startswith(b"version https://git-lfs"):
        m = _LFS.search(head)
        if m:
            oid, real = m[1].decode(), int(m[2])
            what = f"a Git LFS pointer; the real file has {real:,} bytes, sha256 {oid}"
            return "lfs-pointer", what, "git lfs pull   (or download the file itself)", {"oid": oid, "size": real}
        return "lfs-pointer", "a Git LFS pointer", "git lfs pull", {}
    if head[:4] == b"lmgg" and _whisper(head):
        return (
            "whisper",
            "a model of whisper.cpp in its own format",
            "for whisper-cli, not for llama.cpp",
            {},
        )
    for magic, kind, what, remedy in _MAGICS:
        if head.startswith(magic):
            return kind, what, remedy, {}
    if len(head) > 9 and head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= size - 8:
        return "safetensors", "a safetensors file", "gguftool convert its folder", {}
    if _imatrix(head):
        hint = "give it to llama-imatrix --in-file FILE -o FILE.gguf, which writes it as GGUF"
        return "imatrix", "an importance matrix in its format of before GGUF", hint, {}
    if head[257:262] == b"ustar":
        return "tar", "a tar archive", "unpack it first: tar xf", {}
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    low = text[:256].lower()
    if low.startswith((b"<!doctype", b"<html", b"<?xml", b"<head", b"<error")):
        title = re.search(rb"<title[^>]*>\s*([^<]{1,80})", head, re.I)
        said = f' ("{title[1].decode("utf-8", "replace").strip()}")' if title else ""
        hint = "the download got a web page (login, licence or error): download it again with access"
        return "html", f"an HTML page{said}", hint, {}
    if text[:1] in (b"{", b"["):
        return (
            "json",
            f"a JSON document: {_printable(text[:60])}",
            "often an error answer of a server: download it again",
            {},
        )
    if size < 1 << 20 and _is_text(head):
        return "text", f"a text file: {_printable(text[:40])}", None, {}
    return "unknown", f"it starts with {_printable(head[:4])} ({head[:4].hex(' ')}), expected GGUF", None, {}


def _whisper(head: bytes) -> bool:
    """Whether the numbers behind the magic are those of whisper.cpp, which still writes this format.

    Source: `whisper.cpp:whisper_model_load` (the vocabulary of Whisper, 1,500 audio positions) and
    `whisper_vad_init_with_params` (a length and the name of the kind).
    """
    vocabulary, positions = (int.from_bytes(head[at : at + 4], "little") for at in (4, 8))
    return (vocabulary in range(51_864, 51_867) and positions == 1500) or head[8:14] == b"silero"


def _imatrix(head: bytes) -> bool:
    """Whether it starts as `imatrix.cpp:save_imatrix_legacy` writes: entries, then the length and name of a tensor."""
    entries, length = (int.from_bytes(head[at : at + 4], "little") for at in (0, 4))
    name = head[8 : 8 + length] if 0 < length <= 64 else b""
    return 0 < entries < 1 << 20 and name.endswith(b".weight") and _is_text(name)


def _printable(data: bytes) -> str:
    return '"' + "".join(chr(b) if 32 <= b < 127 else "?" for b in data) + '"'


def _is_text(head: bytes) -> bool:
    return all(32 <= b < 127 or b in (9, 10, 13) for b in head)
