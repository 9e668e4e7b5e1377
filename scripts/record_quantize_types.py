"""Ask the real llama library which type each tensor gets, and keep the answers as test data.

    python scripts/record_quantize_types.py LIBLLAMA HEADERS... > tests/data/building/quantize_types.jsonl.gz

LIBLLAMA is for example libllama.v0.5.0.so of the npm package @node-llama-cpp/linux-x64 3.22.1. Each of HEADERS is a
GGUF file or the front of one. Their tokenizers are left out of what is kept: the quantiser does not look at them.
Every header is one line: name, the header itself (base64), and for every target the tensor types in the order in
which llama.cpp walks the tensors (or its error). Targets with ``+imatrix`` were asked with an importance matrix.
"""

from __future__ import annotations

import base64
import ctypes
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from gguftool.build.ftypes import TARGETS
from gguftool.format.header import align
from gguftool.format.parse import parse_bytes
from gguftool.format.render import render_parts
from gguftool.format.types import TENSOR_TYPE_BY_NAME

LINE = re.compile(r"^\[\s*\d+/\s*\d+\] (\S+)\s+- \[.*?\], type =\s*(\S+), size =.*?(?:\((\w+)\))?\s*$")
WITH_IMATRIX = ("IQ3_XXS", "IQ4_NL", "IQ4_XS", "Q4_0", "Q5_0", "IQ2_XS")


def slim(path: Path) -> tuple[bytes, int]:
    """The header without tokenizer and padded, and the size its file would have."""
    data = path.read_bytes()
    header = parse_bytes(data, size=1 << 60)
    fields = [f for f in header.fields if not f.key.startswith("tokenizer.")]
    head = render_parts(header.layout, fields, header.tensors)
    end = max(t.offset + (t.nbytes or 0) for t in header.tensors)
    start = align(len(head), header.alignment)
    return head + bytes(start - len(head)), start + align(end, header.alignment)


def ask(library: str, path: str) -> dict[str, object]:
    """All targets for one file, in this process."""
    from gguftool.build import libworker

    lib = libworker.load(library)
    lines: list[str] = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
    rest = ""

    def log(level: int, text: bytes, user: object) -> None:
        nonlocal rest
        *done, rest = (rest + text.decode("utf-8", "replace")).split("\n")
        lines.extend(done)

    keep = callback(log)
    lib.llama_log_set(keep, None)
    lib.llama_model_quantize.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
    answers: dict[str, object] = {}
    for name, target in TARGETS.items():
        for suffix in ("", "+imatrix") if name in WITH_IMATRIX else ("",):
            params = libworker.default_params(lib)
            assert params is not None
            params.ftype, params.dry_run, params.nthread = target.ftype, True, 1
            if suffix:
                one = (ctypes.c_float * 1)(1.0)
                rows = (libworker._Imatrix * 2)()
                rows[0].name, rows[0].data, rows[0].size = b"none", ctypes.addressof(one), 1
                params.imatrix = ctypes.addressof(rows)
            lines.clear()
            code = lib.llama_model_quantize(path.encode(), b"/nonexistent/x.gguf", ctypes.byref(params))
            found = [m for m in map(LINE.match, lines) if m]
            if code:
                answers[name + suffix] = {
                    "error": next((x for x in reversed(lines) if "fail" in x or "error" in x), "")
                }
            else:
                answers[name + suffix] = " ".join((m[3] or m[2]) for m in found)
                answers["order"] = " ".join(m[1] for m in found)
    return answers


def main() -> None:
    """Write the records of all headers to stdout, gzipped."""
    library, *paths = sys.argv[1:]
    if os.environ.get("ASK"):
        json.dump(ask(library, paths[0]), sys.stdout)
        sys.stdout.flush()
        os._exit(0)
    names = {k.lower(): k for k in TENSOR_TYPE_BY_NAME}
    out = gzip.GzipFile(fileobj=sys.stdout.buffer, mode="wb", mtime=0)
    for path in map(Path, paths):
        head, size = slim(path)
        with tempfile.NamedTemporaryFile(suffix=".gguf") as f:
            f.write(head)
            f.flush()
            os.truncate(f.name, size)
            done = subprocess.run(
                [sys.executable, __file__, library, f.name], env={**os.environ, "ASK": "1"}, capture_output=True
            )
        if done.returncode:
            print(f"{path.name}: ended with {done.returncode}: {done.stderr[-200:]!r}", file=sys.stderr)
            continue
        answers = json.loads(done.stdout)
        if "order" not in answers:
            print(f"{path.name}: {answers['Q8_0']}", file=sys.stderr)
            continue
        order = answers.pop("order")
        types = {
            key: value if isinstance(value, dict) else " ".join(names[word.lower()] for word in value.split())
            for key, value in answers.items()
        }
        record = {
            "name": path.stem,
            "size": size,
            "header": base64.b64encode(head).decode(),
            "order": order,
            "types": types,
        }
        out.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
    out.close()


if __name__ == "__main__":
    main()
