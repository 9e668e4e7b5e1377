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
       [--include-weights] [--exclude-weights] [--output-tensor-type] [--token-embedding-type] [--tensor-type]
       [--prune-layers] [--keep-split] [--override-kv] [--dry-run]
       model-f32.gguf [model-quant.gguf] type [nthreads]
"""


def main() -> int:
    """Translate the command line into a job for the library."""
    if "--help" in sys.argv:
        sys.stdout.write(HELP)
        return 1
    from gguftool.build import imatrix, provenance, tools
    from gguftool.build.ftypes import target
    from gguftool.format.types import TENSOR_TYPE_BY_NAME

    parser = argparse.ArgumentParser(allow_abbrev=False)
    for flag in ("--allow-requantize", "--leave-output-tensor", "--pure", "--keep-split"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--imatrix")
    parser.add_argument("--prune-layers", default="")
    for flag in ("--output-tensor-type", "--token-embedding-type"):
        parser.add_argument(flag)
    for flag in ("--tensor-type", "--override-kv", "--include-weights", "--exclude-weights"):
        parser.add_argument(flag, action="append", default=[])
    parser.add_argument("source")
    parser.add_argument("output")
    parser.add_argument("type")
    parser.add_argument("threads", nargs="?", type=int, default=2)
    given = parser.parse_args()
    library = tools.libllama(os.environ["LIBLLAMA"])
    assert library is not None
    fields = []
    for text in given.override_kv:
        key, _, value = text.partition("=")
        kind, _, value = value.partition(":")
        read = {"str": str, "int": int, "float": float, "bool": "true".__eq__}[kind]
        assert len(value.encode()) < 128
        fields.append((key, kind, read(value)))
    if given.imatrix:
        # The program writes these by itself.
        left = imatrix.read(given.imatrix).selected(given.include_weights, given.exclude_weights)
        keys = provenance.with_imatrix(left)
        fields += [(key, "str" if isinstance(value, str) else "int", value) for key, value in keys.items()]
    job = {
        "library": library.path,
        "input": given.source,
        "output": given.output.removesuffix(".gguf") if given.keep_split else given.output,
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
        "include": given.include_weights,
        "exclude": given.exclude_weights,
        "only_copy": given.type == "COPY",
        "keep_split": given.keep_split,
        "prune": [int(n) for n in given.prune_layers.split(",") if n],
    }
    if os.environ.get("QUANTIZE_FAILS"):
        sys.stdout.write(os.environ["QUANTIZE_FAILS"] + "\n")
        return 1
    command = [sys.executable, "-m", "gguftool.build.libworker"]
    return subprocess.run(command, input=json.dumps(job).encode()).returncode


if __name__ == "__main__":
    sys.exit(main())
