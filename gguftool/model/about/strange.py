"""A file that is no model of llama.cpp's: what it calls itself, what it holds, who made it and what shows that."""

from __future__ import annotations

from collections.abc import Iterable

from gguftool.facts.arch import facts
from gguftool.model.about.fact import Facts, facts_of
from gguftool.model.model import Model
from gguftool.model.origin import origin
from gguftool.regex import regex

_NUMBERED = regex(r"((?:[A-Za-z_]\w*\.)*?[A-Za-z_]\w*)\.(\d{1,18})\.")
_MOST = 4


def about(m: Model) -> Facts:
    """Its name and size where no line about language models says them, the program, and the sign."""
    found = origin(m)
    return facts_of(
        *(() if facts(m.architecture) is not None else named(m)),
        ("made for", found.program.name if found is not None else None),
        ("told by", found.why if found is not None else None),
    )


def image(m: Model) -> Facts:
    """A diffusion model or what stands beside one: its parts, and the option of sd-cli that takes it."""
    names = list(m.tensors)
    held = tuple(what for what, starts in _PARTS.items() if any(n.startswith(starts) for n in names))
    return facts_of(
        *about(m),
        ("holds", held),
        ("blocks", blocks(names)),
        ("reshaped tensors", sum(key.startswith("comfy.gguf.orig_shape.") for key in m.fields) or None),
        ("option of sd-cli", _option(held)),
    )


_PARTS: dict[str, tuple[str, ...]] = {
    "diffusion model": (
        "model.diffusion_model.", "double_blocks.", "single_blocks.", "joint_blocks.", "transformer_blocks.",
        "joint_transformer_blocks.", "single_transformer_blocks.", "input_blocks.", "down_blocks.", "patch_embedding.",
        "double_stream_blocks.", "double_layers.", "img_in.", "txt_in.", "distilled_guidance_layer.",
    ),
    "VAE": ("first_stage_model.", "encoder.conv_in.", "decoder.conv_in.", "encoder.down_blocks.", "decoder.up_blocks."),
    "text encoder": ("cond_stage_model.", "text_encoders.", "text_model.", "conditioner."),
}  # fmt: skip
"""Part -> how the names of its tensors begin: stable diffusion checkpoints and those of diffusers."""


def _option(held: tuple[str, ...]) -> str:
    """How sd-cli is given such a file (`examples/common/common.cpp` of leejet/stable-diffusion.cpp 97d29908)."""
    if len(held) > 1:
        return "--model"
    alone = {"diffusion model": "--diffusion-model", "VAE": "--vae", "text encoder": "--clip_l or --clip_g"}
    return alone[held[0]] if held else ""


def named(m: Model) -> Facts:
    """Name, architecture and number of weights, which every file may have."""
    return facts_of(
        ("name", text(m, "general.name")),
        ("architecture", m.architecture or "not named"),
        ("weights", sum(t.info.elements for t in m.all_tensors())),
    )


def blocks(names: Iterable[str]) -> tuple[str, ...]:
    """Numbered parts, the most numerous first: ``double_blocks 19``."""
    found: dict[str, int] = {}
    for name in names:
        if (numbered := _NUMBERED.match(name)) is not None:
            found[numbered[1]] = max(found.get(numbered[1], 0), int(numbered[2]) + 1)
    rows = sorted(found.items(), key=lambda row: -row[1])[:_MOST]
    return tuple(f"{prefix} {n}" for prefix, n in rows)


def text(m: Model, key: str) -> str:
    """A value of the metadata that is text; "" when it is not there or is none."""
    value = m.get(key)
    return value if isinstance(value, str) else ""


def number(m: Model, key: str) -> int | None:
    """A value of the metadata that is a whole number; None when it is not there or is none."""
    value = m.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
