"""Let the real llama library quantise the small models of the tests, and keep the hashes of what it wrote.

    python scripts/record_quantize_bytes.py LIBLLAMA > tests/data/building/quantize_bytes.json

LIBLLAMA is for example libllama.v0.5.0.so of the npm package @node-llama-cpp/linux-x64 3.22.1.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile

from gguftool.build.ftypes import TARGETS
from tests.building.models import CASES, importances, model


def main() -> None:
    """One hash for each model, target, and with and without importance matrix; None where the library refuses."""
    library = sys.argv[1]
    answers: dict[str, dict[str, str | None]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case, (keys, kind) in CASES.items():
            source, output, matrix = (os.path.join(folder, n) for n in ("in.gguf", "out.gguf", "matrix.gguf"))
            model(keys, kind).write(source)
            importances(str(keys["general.architecture"])).write(matrix)
            rows = answers.setdefault(case, {})
            for target in TARGETS.values():
                for suffix in ("", "+imatrix"):
                    job = {
                        "library": library,
                        "threads": 2,
                        "ftype": target.ftype,
                        "input": source,
                        "output": output,
                        "allow_requantize": True,
                        "imatrix": matrix if suffix else None,
                    }
                    done = subprocess.run(
                        [sys.executable, "-m", "gguftool.build.libworker"],
                        input=json.dumps(job).encode(),
                        capture_output=True,
                    )
                    ok = done.returncode == 0
                    with open(output, "rb") as f:
                        rows[target.name + suffix] = hashlib.sha256(f.read()).hexdigest() if ok else None
                    if not ok:
                        print(case, target.name + suffix, done.stderr.splitlines()[-1:], file=sys.stderr)
    json.dump(
        {"library": "libllama v0.5.0 of @node-llama-cpp/linux-x64 3.22.1", "sha256": answers}, sys.stdout, indent=1
    )
    print()


if __name__ == "__main__":
    main()
