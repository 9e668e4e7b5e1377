"""What ``ollama rm NAME…`` does to the store of this home (`server/routes.go:DeleteHandler`, `manifest.go`).

The manifest goes, and each layer that no other manifest has.
"""

import json
import os
import sys
from pathlib import Path

root = Path(os.environ["HOME"]) / ".ollama/models"
words = sys.argv[1:]
assert words.pop(0) == "rm"
for name in [w for w in words if w != "--"]:
    front, _, tag = name.rpartition(":")
    parts = front.split("/")
    where = [["registry.ollama.ai", "library"], ["registry.ollama.ai"], []][len(parts) - 1] + parts
    manifest = root.joinpath("manifests", *where, tag)
    gone = json.loads(manifest.read_text())
    manifest.unlink()
    left = [json.loads(p.read_text()) for p in (root / "manifests").rglob("*") if p.is_file()]
    kept = {layer["digest"] for m in left for layer in [*m["layers"], m["config"]]}
    for layer in [*gone["layers"], gone["config"]]:
        if layer["digest"] not in kept:
            (root / "blobs" / layer["digest"].replace(":", "-")).unlink(missing_ok=True)
