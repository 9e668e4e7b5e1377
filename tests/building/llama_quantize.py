"""Stands in for the llama-quantize program, which no package holds: its command line over the real library.

The options are those of `llama-quantize --help` (b11434); the work is done by libllama, whose folder is in LIBLLAMA.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

HELP = """usage: llama-quantize [--help] [--allow-requantize] [--leave-output-tensor] [--pure] [--imatrix]
       [--output-tensor-type] [--token-embedding-type] [--tensor-type] [--override-kv] [--dry-run]
       model-f32.gguf [model-quant.gguf] type [nthreads]
"""


def main() -> int:
    """Translate the command line into a job for the library."""
    if "--help" in sys.argv:
        sys.stdout.write(HELP)
        return 1
    from gguftool.build import tools
    from gguftool.build.ftypes import target
    from gguftool.format.types import TENSOR_TYPE_BY_NAME

    parser = argparse.ArgumentParser(allow_abbrev=False)
    for flag in ("--allow-requantize", "--leave-output-tensor", "--pure"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--imatrix")
    for flag in ("--output-tensor-type", "--token-embedding-type"):
        parser.add_argument(flag)
    for flag in ("--tensor-type", "--override-kv"):
        parser.add_argument(flag, action="append", default=[])
    parser.add_argument("source")
    parser.add_argument("output")
    parser.add_argument("type")
    parser.add_argument("threads", nargs="?", type=int, default=2)
    given = parser.parse_args()
    library = tools.libllama(os.environ["LIBLLAMA"])
    assert library is not None
    fields = {}
    for text in given.override_kv:
        key, _, value = text.partition("=")
        kind, _, value = value.partition(":")
        assert kind == "str"
        assert len(value.encode()) < 128
        fields[key] = value
    job = {
        "library": library.path,
        "input": given.source,
        "output": given.output,
        "threads": given.threads,
        "ftype": target(given.type).ftype,
        "allow_requantize": given.allow_requantize,
        "pure": given.pure,
        "leave_output": given.leave_output_tensor,
        "tensor_types": [
            (p, TENSOR_TYPE_BY_NAME[t.upper()].id) for p, _, t in (x.rpartition("=") for x in given.tensor_type)
        ],
        "fields": fields,
        "imatrix": given.imatrix,
    }
    if os.environ.get("QUANTIZE_FAILS"):
        sys.stdout.write(os.environ["QUANTIZE_FAILS"] + "\n")
        return 1
    command = [sys.executable, "-m", "gguftool.build.libworker"]
    return subprocess.run(command, input=json.dumps(job).encode()).returncode


if __name__ == "__main__":
    sys.exit(main())
