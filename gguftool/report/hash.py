"""Hashes as text that ``sha256sum -c`` takes, as llama-gguf-hash prints them, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gguftool.report.text import safe
from gguftool.verify.hashes import FileHashes
from gguftool.verify.manifest import sum_line


def text(found: Iterable[FileHashes], algorithms: Sequence[str], data: bool) -> str:
    """A line for every file; below it those of its data section and tensors, when they were hashed."""
    lines: list[str] = []
    for h in found:
        # sha256sum's own escapes, so that it finds the file again; nothing else can be in a name that harms a terminal.
        lines.append(safe(sum_line(h.file, h.path)))
        if data and h.data is not None:
            lines.append(f"{h.data}  {safe(h.path)}:data")
        lines += [f"{t.digests.get(a) or '-'}  {safe(f'{h.path}:{t.name}')}" for t in h.tensors for a in algorithms]
    return "\n".join(lines) + "\n"


def gguf_hash(found: Iterable[FileHashes], algorithms: Sequence[str]) -> str:
    """As llama-gguf-hash and gguf-py's gguf_hash print: tensors, then all of them as one stream."""
    lines: list[str] = []
    for h in found:
        lines += [_row(a, t.digests.get(a), f"{h.path}:{t.name}") for t in h.tensors for a in algorithms]
        lines += [_row(a, value, h.path) for a, value in (h.model or {}).items()]
    return "\n".join(lines) + "\n"


def _row(algorithm: str, value: str | None, name: str) -> str:
    return f"{algorithm:<8}  {value or '-'}  {safe(name)}"


def body(found: Iterable[FileHashes]) -> dict[str, object]:
    """The fields of the JSON object."""
    return {
        "files": [
            {
                **file_json(h),
                "tensors": [
                    {
                        "name": t.name,
                        "type": t.type_name,
                        "shape": list(t.shape),
                        "start": t.start,
                        "end": t.end,
                        **t.digests,
                    }
                    for t in h.tensors
                ],
            }
            for h in found
        ]
    }


def file_json(h: FileHashes) -> dict[str, object]:
    """One file without its tensors."""
    return {
        "path": h.path,
        "size": h.size,
        "sha256": h.file,
        "header": {"bytes": h.data_offset, "sha256": h.header} if h.header else None,
        "data": {"start": h.data_offset, "end": h.data_end, "sha256": h.data} if h.data else None,
        "model": h.model,
    }
