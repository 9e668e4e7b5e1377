"""Place: LM Studio's folders."""

from __future__ import annotations

from gguftool.lint.rule import Context
from gguftool.model import Model
from gguftool.model import from_source as read
from gguftool.source import Memory
from tests.build import GGUF
from tests.lint.samples import Sample, ready


def at(path: str, g: GGUF):  # type: ignore[no-untyped-def]
    def opened(folder: object) -> Model:
        return read(Memory(g.bytes(), path), strict=False)

    return opened


PROJECTOR = GGUF("clip").kv("general.type", "mmproj").tensor("v.patch_embd.weight")
IN = Context(models_folder="/models")
SAMPLES = [
    # case 148
    Sample("lmstudio-place", at("/models/m.gguf", ready()), "file", "directly in the models folder", context=IN,
           silent=at("/models/me/repo/m.gguf", ready()), severity="warning",
           fix="mkdir -p /models/local/m && mv /models/m.gguf /models/local/m/"),
    Sample("lmstudio-place", at("/models/repo/m.gguf", ready()), "file", "one folder down", context=IN,
           silent=at("/models/me/repo/m.gguf", ready()), fix="/models/local/repo"),
    Sample("lmstudio-place", at("/models/a/b/c/m.gguf", ready()), "file", "3 folders down", context=IN,
           silent=at("/models/me/repo/m.gguf", ready())),
    # case 65
    Sample("lmstudio-name", at("/models/me/repo/vision.gguf", PROJECTOR), "file", "expects mmproj-vision.gguf",
           context=IN, silent=at("/models/me/repo/mmproj-vision.gguf", PROJECTOR),
           fix="mv /models/me/repo/vision.gguf"),
]  # fmt: skip
