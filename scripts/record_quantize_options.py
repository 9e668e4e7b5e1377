"""Let a real llama-quantize run over small models with its options, and keep the hashes of what it wrote.

    python -m scripts.record_quantize_options LLAMA_QUANTIZE BUILD > tests/data/building/quantize_options.json

BUILD is what to call the program, for example b11434.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.building.option_cases import CASES, write


def main() -> None:
    """Hashes by case and by what stands behind the name asked for."""
    program, build = sys.argv[1:]
    answers = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write(folder)
        for case in CASES:
            *options, source, kind = shlex.split(case.replace("\\", "\\\\"))
            done = subprocess.run([program, *options, source, "out.gguf", kind], cwd=folder, capture_output=True)
            made = sorted(folder.glob("out*"))
            answers[case] = {
                p.name.removeprefix("out"): hashlib.sha256(p.read_bytes()).hexdigest()
                for p in made
                if not done.returncode
            }
            for p in made:
                p.unlink()
    json.dump({"program": f"llama-quantize {build}, x86-64", "sha256": answers}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
