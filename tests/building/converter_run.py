"""Runs the converter's own `set_gguf_parameters` over configurations; started by the converter's Python.

    python converter_run.py SOURCE CASES.json OUT.json

A name that a class asks for and the configuration lacks is added, as the class says it. What it refuses is left out.
"""

from __future__ import annotations

import json
import logging
import re
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MOST = 40
"""Names that are added to one configuration."""


def main() -> None:
    source, cases, out = map(Path, sys.argv[1:4])
    sys.path[:0] = [str(source / "gguf-py"), str(source), str(HERE)]
    import gguf
    from conversion import load_all_models
    from conversion.base import ModelBase, ModelType
    from converter_values import value

    logging.disable(logging.CRITICAL)
    load_all_models()
    done = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", 8) + b"{}      ")
        for arch, converted, config in json.loads(cases.read_text()):
            for _ in range(MOST):
                (folder / "config.json").write_text(json.dumps(config))
                try:
                    classes = ModelBase._model_classes[ModelType.TEXT]
                    model = classes[converted](folder, gguf.LlamaFileType.ALL_F32, folder / "x.gguf", eager=True)
                    model.set_gguf_parameters()
                    list(_tensors(model))
                except KeyError as missing:
                    asked = re.findall(r"'(\w+)'", str(missing))
                    if not asked or asked[0] in config:
                        break
                    found = value(asked[0])
                    config[asked[0]] = 4 if found is None else found
                except Exception:
                    break
                else:
                    keys: dict[str, Any] = {k: v.value for part in model.gguf_writer.kv_data for k, v in part.items()}
                    # One class only hands over to others, which are asked by themselves.
                    if keys.get("general.architecture") == arch and f"{arch}.block_count" in keys:
                        done.append([arch, converted, config, keys])
                    break
    out.write_text(json.dumps(done, default=str))


def _tensors(model: Any) -> Any:
    """Keys that are written beside tensors of the converter's own; the stand-in for torch cannot make them all."""
    try:
        yield from model.generate_extra_tensors()
    except Exception:
        return


if __name__ == "__main__":
    main()
