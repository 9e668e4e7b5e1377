"""What a file is when it is no GGUF: named, with the facts found and what helps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gguftool.errors import GgufToolError, InterruptedEdit, NotGguf
from gguftool.format.frame import MAGIC, POISONED_MAGIC
from gguftool.regex import regex
from gguftool.shell import gguftool, path_word, shell

if TYPE_CHECKING:
    from gguftool.format.oldggml import Found
    from gguftool.format.zipped import Read

HEAD = 4096
"""Bytes of the file's start that `identify` wants to see."""

_LFS = regex(rb"oid sha256:([0-9a-f]{64})\s+size (\d{1,18})")
_ANNEX = regex(rb"^(?:\.\./)*(?:\.git/annex|/annex)/objects/\S*?-s(\d{1,18})--(\S+)")

_CONVERT = "gguftool convert its folder"
_LORA = "convert_lora_to_gguf.py of llama.cpp"

# First bytes -> (kind, what it is, hint)
_MAGICS: tuple[tuple[bytes, str, str, str | None], ...] = (
    (b"FUGG", "swapped", "a GGUF file with its magic byte-swapped", None),
    (b"\x1f\x8b", "gzip", "gzip-compressed", "unpack it first: gunzip"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd-compressed", "unpack it first: zstd -d"),
    (b"\xfd7zXZ\x00", "xz", "xz-compressed", "unpack it first: unxz"),
    (b"BZh", "bzip2", "bzip2-compressed", "unpack it first: bunzip2"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4-compressed", "unpack it first: lz4 -d"),
    (b"7z\xbc\xaf\x27\x1c", "7z", "a 7-Zip archive", "unpack it first"),
    (b"Rar!", "rar", "a RAR archive", "unpack it first"),
    (b"%PDF", "pdf", "a PDF document", None),
    (b"\x89HDF", "hdf5", "an HDF5 file (Keras checkpoint)", "llama.cpp's converter wants safetensors or PyTorch"),
    (b"\x93NUMPY", "numpy", "an array of NumPy", "it is part of something else: look for the model"),
    (b"PAR1", "parquet", "a Parquet file: a data set, not a model", None),
    (b"ftrt", "tensorrt", "an engine of TensorRT", "it is for the GPU it was built on; fetch the model itself"),
    (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "pickle", "an old PyTorch checkpoint", _CONVERT),
    *((bytes((0x80, n)), "pickle", "a Python pickle (PyTorch checkpoint)", _CONVERT) for n in range(2, 6)),
    (b"d8:announce", "torrent", "a torrent: the address of a download, not the file", "give it to a torrent program"),
    (b"d13:announce", "torrent", "a torrent: the address of a download, not the file", "give it to a torrent program"),
    (b"\x0a\x0e\x0a\x05<unk>", "sentencepiece", "a SentencePiece vocabulary", "it belongs in the model's folder"),
)  # fmt: skip
_PROGRAMS = (b"\x7fELF", b"MZ", b"#!", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")


def identify(
    head: bytes, size: int, name: str, journaled: bool = False, read: Read | None = None
) -> GgufToolError | None:
    """What the file is, as an error ready to raise; None when it starts with the GGUF magic.

    Args:
        head: the first `HEAD` bytes (or all, when there are fewer).
        size: length of the whole file in bytes.
        name: path for the message.
        journaled: the journal of an edit lies beside the file, which then may start with zeros as well.
        read: bytes from elsewhere in the file, to see what lies in an archive or in a program.
    """
    if head[:4] == MAGIC:
        return None
    if head[:4] == POISONED_MAGIC or journaled:
        return InterruptedEdit(
            f"{name}: an edit of this file was interrupted; it cannot be loaded in this state",
            gguftool("recover", path_word(name)),
        )
    kind, what, hint, facts = what_is(head, size, name, read)
    return NotGguf(f"{name}: not a GGUF file: {what}", hint, kind=kind, facts=facts)


def what_is(head: bytes, size: int, name: str, read: Read | None = None) -> Found:
    """What a file is that is no GGUF: kind, words, what helps, facts; arguments as of `identify`."""
    if size == 0:
        return "empty", "the file is empty", "download it again", {}
    if not head.strip(b"\0"):
        hint = "the download did not finish or the disk was full: download it again"
        return "zeros", f"it starts with {len(head):,} zero bytes (header never written)", hint, {}
    from gguftool.format.oldggml import old_ggml

    found = old_ggml(head) or _packed(head, size, name, read)
    if found is not None:
        return found
    for magic, kind, what, remedy in _MAGICS:
        if head.startswith(magic):
            return kind, what, remedy, {}
    if len(head) > 9 and head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= size - 8:
        return _safetensors(head, size, read)
    if _imatrix(head):
        hint = "gguftool imatrix --merge FILE -o FILE.gguf writes it as GGUF"
        return "imatrix", "an importance matrix in its format of before GGUF", hint, {}
    if head[257:262] == b"ustar":
        return "tar", "a tar archive", shell(["tar", "xf", path_word(name)]), {}
    if head[4:8] == b"TFL3":
        return "tflite", "a TensorFlow Lite model", "llama.cpp cannot use it: fetch the model itself", {}
    if head[:1] == b"\x08" and head[1:2] < b"\x20" and head[2:3] == b"\x12":
        return "onnx", "an ONNX model", "llama.cpp cannot use it: convert the original with gguftool convert", {}
    if name.endswith(".aria2"):
        return "part", "the notes of a download that aria2 has not finished", "let aria2 finish it", {}
    return _text(head, size)


def _packed(head: bytes, size: int, name: str, read: Read | None) -> Found | None:
    """A zip file or a program, named after what lies in it."""
    program = head.startswith(_PROGRAMS)
    if not program and not head.startswith(b"PK\x03\x04"):
        return None
    from gguftool.format.zipped import members

    inside = members(read, size) if read is not None else []
    models = [m for m in inside if m.name.lower().endswith(".gguf")]
    facts: dict[str, object] = {
        "members": [{"name": m.name, "size": m.size, "offset": m.offset or None} for m in models[:20]]
    }
    if models:
        first = models[0]
        at = f" at byte {first.offset:,}" if first.offset else ", compressed"
        more = f" and {len(models) - 1} more" if len(models) > 1 else ""
        held = f"with {safe_name(first.name)} ({first.size:,} bytes{at}){more} inside"
        take = "" if "://" in name else shell(["unzip", path_word(name), *(path_word(m.name) for m in models[:3])])
        if program:
            way = f"{take}   (or run it: it is the server itself)" if take else "it runs by itself"
            return "llamafile", f"a llamafile, a program {held}", way, facts
        return "zip", f"a zip archive {held}", take or "unpack it first", facts
    if program:
        what = {b"MZ": "a Windows program, not a model", b"\x7fE": "a program (ELF), not a model"}
        if head.startswith(b"#!"):
            return "script", f"a script, not a model: {_printable(head.splitlines()[0][:40])}", None, {}
        return "program", what.get(head[:2], "a program, not a model"), None, {}
    names = [m.name for m in inside]
    if any(n.endswith("data.pkl") for n in names):
        return "pytorch", "a PyTorch checkpoint", _CONVERT, {}
    if names and all(n.endswith(".npy") for n in names):
        return "numpy", "arrays of NumPy (.npz)", "it is part of something else: look for the model", {}
    if any(n.endswith("model.weights.h5") for n in names):
        return "keras", "a Keras model", "llama.cpp's converter wants safetensors or PyTorch", {}
    return "zip", "a zip archive (PyTorch checkpoints are zip files too)", "unpack or convert it first", {}


def safe_name(name: str) -> str:
    """A name out of a file, for a sentence: what is not printable becomes ``?``."""
    return "".join(c if c.isprintable() else "?" for c in name)


_QUANTISED: tuple[tuple[bytes, str], ...] = (
    (rb'"format"\s*:\s*"mlx"', "MLX, for Apple's mlx-lm"),
    (rb"\.q_invperm\"|\.q_weight\"", "EXL2, for ExLlamaV2"),
    (rb"\.trellis\"", "EXL3, for ExLlamaV3"),
    (rb"\.g_idx\"", "GPTQ"),
    (rb"\.qzeros\"", "AWQ or GPTQ"),
    (rb"\.quant_state\.bitsandbytes|\.absmax\"", "bitsandbytes"),
)
"""What a header of safetensors shows -> how its weights are stored."""


def _safetensors(head: bytes, size: int, read: Read | None) -> Found:
    length = int.from_bytes(head[:8], "little")
    text = read(8, min(length, 1 << 20)) if read is not None else head[8:]
    stored = next((kind for pattern, kind in _QUANTISED if re.search(pattern, text)), "")
    if not stored:
        return "safetensors", "a safetensors file", _CONVERT, {}
    hint = "gguftool convert its folder, or take the model it was quantised from: the converter cannot read every kind"
    return "safetensors", f"a safetensors file, its weights quantised ({stored})", hint, {"stored": stored}


def _text(head: bytes, size: int) -> Found:
    """Something that people or servers wrote."""
    if head.startswith(b"version https://git-lfs"):
        m = _LFS.search(head)
        if m:
            oid, real = m[1].decode(), int(m[2])
            what = f"a Git LFS pointer; the real file has {real:,} bytes, sha256 {oid}"
            return "lfs-pointer", what, "git lfs pull   (or download the file itself)", {"oid": oid, "size": real}
        return "lfs-pointer", "a Git LFS pointer", "git lfs pull", {}
    annex = _ANNEX.match(head)
    if annex:
        what = f"a git-annex pointer; the real file has {int(annex[1]):,} bytes"
        return "annex-pointer", what, "git annex get", {"size": int(annex[1])}
    if head.startswith(b"outs:\n") and b"md5:" in head:
        return "dvc-pointer", "a pointer of DVC, not the file", "dvc pull", {}
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    low = text[:256].lower()
    said_no = next((row for row in _ANSWERS if row[0] in low), None) if size < 1 << 12 else None
    code = re.search(rb"<code>\s*([^<]{1,40})", head, re.I)
    if low.startswith((b"<?xml", b"<error")) and code:
        said = safe_name(code[1].decode("utf-8", "replace").strip())
        hint = "the address is wrong, has run out or asks for access: download it again"
        return "html", f"an error answer of a storage server ({said})", hint, {}
    if low.startswith((b"<!doctype", b"<html", b"<?xml", b"<head", b"<error")):
        title = re.search(rb"<title[^>]*>\s*([^<]{1,80})", head, re.I)
        said = f' ("{title[1].decode("utf-8", "replace").strip()}")' if title else ""
        hint = "the download got a web page (login, licence or error): download it again with access"
        return "html", f"an HTML page{said}", hint, {}
    if said_no is not None:
        return "json" if text[:1] in (b"{", b"[") else "text", *said_no[1:], {}
    if text[:1] in (b"{", b"["):
        for mark, kind, what, remedy in _JSON:
            if mark in head:
                return kind, what, remedy, {}
        shown = _printable(text[:60])
        return "json", f"a JSON document: {shown}", "often an error answer of a server: download it again", {}
    if size < 1 << 20 and re.match(rb"(?i)from\s+\S+", text) and _is_text(head):
        return "modelfile", "a Modelfile of Ollama", "name the model that stands behind FROM", {}
    if size < 1 << 20 and _is_text(head):
        return "text", f"a text file: {_printable(text[:40])}", None, {}
    return "unknown", f"it starts with {_printable(head[:4])} ({head[:4].hex(' ')}), expected GGUF", None, {}


_LOGIN = "accept its licence on its page where it asks for that, log in (hf auth login), download it again"
_ANSWERS: tuple[tuple[bytes, str, str], ...] = (
    (
        b"entry not found",
        "an answer of the Hub: it has no file of that name",
        "gguftool plan hf://OWNER/REPO lists them",
    ),
    (b"404: not found", "an answer of GitHub: it has no file of that name", "check the address: branch and path"),
    (b"is restricted", "an answer of the Hub: the model is for those who were let in", _LOGIN),
    (b"invalid username or password", "an answer of the Hub: there is no such repository, or it is private", _LOGIN),
    (b"repository not found", "an answer of the Hub: there is no such repository, or it is private", _LOGIN),
)
"""What a server says in small letters where a file was asked for -> what it is, what helps."""
_JSON: tuple[tuple[bytes, str, str, str], ...] = (
    (b'"weight_map"', "index", "the list of a model in several safetensors files", _CONVERT),
    (b"vnd.docker.distribution.manifest", "manifest", "a manifest of Ollama's store", "name the model: ollama://NAME"),
    (b'"model_type"', "config", "the configuration of a Hugging Face model", _CONVERT),
    (b'"architectures"', "config", "the configuration of a Hugging Face model", _CONVERT),
    (b'"added_tokens"', "tokenizer", "a tokenizer of Hugging Face", _CONVERT),
    (b'"base_model_name_or_path"', "adapter", "the configuration of a LoRA adapter", _LORA),
)  # fmt: skip
"""What a JSON document holds -> kind, what it is, what helps."""


def _imatrix(head: bytes) -> bool:
    """Whether it starts as `imatrix.cpp:save_imatrix_legacy` writes: entries, then the length and name of a tensor."""
    entries, length = (int.from_bytes(head[at : at + 4], "little") for at in (0, 4))
    name = head[8 : 8 + length] if 0 < length <= 64 else b""
    return 0 < entries < 1 << 20 and name.endswith(b".weight") and _is_text(name)


def _printable(data: bytes) -> str:
    return '"' + "".join(chr(b) if 32 <= b < 127 else "?" for b in data) + '"'


def _is_text(head: bytes) -> bool:
    return all(32 <= b < 127 or b in (9, 10, 13) for b in head)
