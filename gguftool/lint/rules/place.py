"""Place: where a file lies, for programs that find models by their folders (`lint --layout lmstudio FOLDER`)."""

from __future__ import annotations

import os

from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule
from gguftool.model import Model
from gguftool.model.role import role
from gguftool.shell import AND, FILE, path_word


@rule(Severity.WARNING, role="any", whole=False, changes_run=False)
def lmstudio_place(m: Model, ctx: Context) -> Drafts:
    """LM Studio looks for models at PUBLISHER/REPOSITORY/FILE.gguf.

    Why. A file in the models folder itself, or one level down, is not shown, without any message.
    Evidence. LM Studio bug tracker 834 and 406. Checked only with `--layout lmstudio`.
    Example. my-model.gguf lies directly in the models folder
    Fix. Move or link it two folders down.
    """
    if ctx.models_folder is None:
        return
    inside = os.path.relpath(m.name, ctx.models_folder).split(os.sep)
    if len(inside) == 3:
        return
    name = inside[-1]
    at = {1: "directly in the models folder", 2: "one folder down"}.get(len(inside), f"{len(inside) - 1} folders down")
    repository = inside[0] if len(inside) == 2 else name.removesuffix(".gguf")
    target = path_word(os.path.join(ctx.models_folder, "local", repository))
    yield found(
        f"{name} lies {at}; LM Studio shows PUBLISHER/REPOSITORY/{name}",
        where="file",
        fix=Fix("move it two folders down", command=("mkdir", "-p", target, AND, "mv", FILE, f"{target}/")),
    )


@rule(Severity.WARNING, role="any", whole=False, changes_run=False)
def lmstudio_name(m: Model, ctx: Context) -> Drafts:
    """LM Studio knows a projector by its name.

    Why. A multimodal projector whose name does not begin with mmproj is listed as a model of its own, or not at
    all, and the model loses its eyes. Shards need the usual names too; that is the rule shard-name-invalid.
    Evidence. unsloth issue 6084. Checked only with `--layout lmstudio`.
    Example. vision-f16.gguf is a multimodal projector; LM Studio expects mmproj-vision-f16.gguf
    Fix. Rename it.
    """
    name = os.path.basename(m.name)
    if ctx.models_folder is None or name.startswith("mmproj") or ctx.once("role", lambda: role(m)) != "mmproj":
        return
    right = f"mmproj-{name}"
    target = path_word(os.path.join(os.path.dirname(m.name), right))
    yield found(
        f"{name} is a multimodal projector; LM Studio expects {right}",
        where="file",
        fix=Fix(f"rename it to {right}", command=("mv", FILE, target)),
    )
