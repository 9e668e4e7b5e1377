"""Runs the converter over folders in one process and keeps the last lines of each; started by the converter's Python.

    python ends_run.py SOURCE FOLDERS OUT.json.gz

FOLDERS is a folder of model folders (`tests/building/faulty.py:FAULTS`). `tests/data/building/converter_ends.json.gz`
holds what it kept of b11434 and of the packaged 0.1.1, with torch 2.13 and transformers 5.24.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import logging
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

LINES = 40


def main() -> None:
    """Run them all."""
    source, folders, out = sys.argv[1:4]
    sys.path[:0] = [source + "/gguf-py", source]
    import convert_hf_to_gguf

    kept: dict[str, Any] = {}
    for path in sorted(Path(folders).iterdir()):
        said = io.StringIO()
        handler = logging.StreamHandler(said)
        handler.setFormatter(logging.Formatter("%(levelname)s:%(name)s:%(message)s"))
        logging.getLogger().handlers[:] = [handler]
        logging.getLogger().setLevel(logging.INFO)
        code: Any = 0
        with tempfile.TemporaryDirectory() as made, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            sys.argv = ["convert_hf_to_gguf.py", str(path), "--outfile", f"{made}/out.gguf", "--outtype", "f16"]
            try:
                convert_hf_to_gguf.main()
            except SystemExit as e:
                code = e.code
            except BaseException:
                code = 1
                traceback.print_exc(file=said)
        text = said.getvalue().replace(source, "/llama.cpp").replace(folders, "/models")
        lines = [line for line in text.replace("\r", "\n").split("\n") if line.strip()]
        kept[path.name] = {"code": code, "lines": lines[-LINES:]}
    with gzip.GzipFile(out, "wb", mtime=0) as f:
        f.write(json.dumps(kept).encode())


if __name__ == "__main__":
    main()
