"""The oracle for tensor data: `ggml_validate_row_data` of the real library, in a child process.

``valid([("Q4_K", data), ...])`` asks one child and returns what the library says of each.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def valid(rows: list[tuple[int, bytes]]) -> list[bool]:
    """For every (type id, data of one row) whether the library takes it."""
    text = json.dumps([(type_id, data.hex()) for type_id, data in rows])
    done = subprocess.run(
        [sys.executable, "-m", "tests.verify.validate"],
        input=text,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout)


def _main() -> None:
    spec = find_spec("xllamacpp")
    assert spec is not None
    assert spec.origin is not None
    library = ctypes.CDLL(str(next(Path(spec.origin).parent.glob("xllamacpp.*.so"))))
    check = library.ggml_validate_row_data
    check.restype, check.argtypes = ctypes.c_bool, [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
    rows = [(type_id, bytes.fromhex(text)) for type_id, text in json.load(sys.stdin)]
    print(json.dumps([check(type_id, data, len(data)) for type_id, data in rows]))


if __name__ == "__main__":
    _main()
