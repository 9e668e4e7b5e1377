"""Which other program a file was made for, and what shows it.

Asked in this order: the numbers of its tensor types, keys that one program writes, its architecture, layouts that
llama.cpp left behind, the names of its tensors. What llama.cpp itself can use has no origin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from gguftool.facts.arch import facts
from gguftool.format.header import Header
from gguftool.format.types import TENSOR_TYPES
from gguftool.model.model import Model
from gguftool.model.part import Tensor
from gguftool.records import dataclass, field, replace
from gguftool.regex import regex

if TYPE_CHECKING:
    from gguftool.facts.programs import ForkType, Program


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a file comes from that llama.cpp cannot use.

    Attributes:
        program: what it was made for.
        role: what it is, a key of `gguftool.model.role.ROLES`.
        why: what shows it.
        types: the numbers among its tensor types that mean something else there than in llama.cpp.
        label: `general.file_type` as that program names it, "" when it has no name of its own for it.
        sized: the room that the tensors have is what their types there come to.
    """

    program: Program
    role: str
    why: str
    types: Mapping[int, ForkType] = field(default_factory=dict)
    label: str = ""
    sized: bool = False


def origin(m: Model) -> Origin | None:
    """The other program that a file was made for; None when nothing speaks for one. Found once for a model."""
    if "origin" not in m.kept:
        m.kept["origin"] = next((o for look in _SIGNS if (o := look(m)) is not None), None)
    found: Origin | None = m.kept["origin"]
    return found


def stored_as(m: Model, t: Tensor) -> tuple[str, int | None]:
    """Name of a tensor's type and bytes of its data, as the program has them that the file was made for.

    Returns:
        the bytes None where the sizes of that type are not known, or are not those of the file.
    """
    found = origin(m)
    kind = found.types.get(t.info.type_id) if found is not None else None
    if found is None or kind is None:
        return t.type_name, t.nbytes
    return kind.name, kind.nbytes(t.shape) if found.sized else None


def measured(m: Model, header: Header) -> Header:
    """A header of the model with the sizes that a fork's types have, where they are known to be those of the file."""
    found = origin(m)
    if found is None or not found.sized:
        return header
    types = found.types
    tensors = tuple(
        replace(t, stored=types[t.type_id].nbytes(t.shape)) if t.type_id in types else t for t in header.tensors
    )
    return replace(header, tensors=tensors)


def _made_for(
    key: str, role: str, why: str, types: Mapping[int, ForkType] | None = None, label: str = "", sized: bool = False
) -> Origin:
    from gguftool.facts.programs import program

    return Origin(program(key), role, why, types or {}, label, sized)


# -- by the numbers of tensor types

SHARED = frozenset({39, 40, 42})
"""Numbers of types of llama.cpp that a fork has for another one: most models have none, and need no look at forks."""
_CLEAR = TENSOR_TYPES.keys() - SHARED

_BITNETS = frozenset({"bitnet", "bitnet-b1.58", "bitnet-25"})
_OLD_TYPES = "llama.cpp-old-types"
_LOOKED_AT = 64
"""Tensors that are looked at for a sign."""


def _by_types(m: Model) -> Origin | None:
    """Numbers that only forks have, and numbers that forks and llama.cpp use for types of different size."""
    if _CLEAR.issuperset(t.type_id for part in m.parts for t in part.header.tensors):
        return None
    from gguftool.facts.programs import file_type, tensor_types

    table = tensor_types()
    found: dict[int, list[Tensor]] = {}
    if not {t.type_id for part in m.parts for t in part.header.tensors} & table.keys():
        return None
    for t in m.all_tensors():
        if t.info.type_id in table and len(found.setdefault(t.info.type_id, [])) < _LOOKED_AT:
            found[t.info.type_id].append(t)
    rooms = _Rooms()
    votes: dict[str, dict[int, ForkType]] = {}
    proven: set[tuple[str, int]] = set()
    for number, tensors in found.items():
        own = number in TENSOR_TYPES
        if own and rooms.fit([(t, t.nbytes) for t in tensors]) is not False:
            continue
        fits = {key: rooms.fit([(t, kind.nbytes(t.shape)) for t in tensors]) for key, kind in table[number].items()}
        sure = [key for key, fit in fits.items() if fit]
        proven |= {(key, number) for key in sure}
        if not sure and not own:
            sure = [key for key, fit in fits.items() if fit is None] or list(fits)
        for key in sure:
            votes.setdefault(key, {})[number] = table[number][key]
    if not votes:
        return None
    named = m.architecture in _BITNETS and "bitnet.cpp" in votes
    key = "bitnet.cpp" if named else max(votes, key=lambda k: len(votes[k]))
    types = votes[key]
    said = ", ".join(f"{kind.name} ({number})" for number, kind in list(types.items())[:4])
    more = f" and {len(types) - 4} more" if len(types) > 4 else ""
    ftype = m.get("general.file_type")
    label = file_type(key, ftype) if isinstance(ftype, int) and not isinstance(ftype, bool) else ""
    role = "old" if key == _OLD_TYPES else "foreign"
    return _made_for(key, role, f"tensors of type {said}{more}", types, label, all((key, n) in proven for n in types))


class _Rooms:
    """How many bytes there are for the data of a tensor: up to the next one, or to the end of the file."""

    def __init__(self) -> None:
        self._starts: dict[int, list[int]] = {}

    def fit(self, sizes: list[tuple[Tensor, int | None]]) -> bool | None:
        """Whether the room of tensors is what their sizes come to; None when nothing tells."""
        told = None
        for t, wanted in sizes:
            if wanted is None:
                return None
            room, last = self._of(t)
            if room is None or (last and room < wanted):
                continue  # a file that is cut off says nothing
            if room not in (wanted, wanted + -wanted % t.part.header.alignment):
                return False
            told = True
        return told

    def _of(self, t: Tensor) -> tuple[int | None, bool]:
        """The room, and whether the file ends it; None in a header that is cut off."""
        if not t.part.header.complete:
            return None, True
        starts = self._starts.get(t.part.no)
        if starts is None:
            starts = self._starts[t.part.no] = sorted({info.offset for info in t.part.header.tensors})
        from bisect import bisect_right

        after = bisect_right(starts, t.info.offset)
        if after < len(starts):
            return starts[after] - t.info.offset, False
        return t.part.size - t.offset, True


# -- by keys and by architecture


def of_two_towers(m: Model) -> bool:
    """Whether it is CLIP itself, text and images, and no projector: `convert_hf_to_gguf.py` of monatis/clip.cpp."""
    return m.get("clip.has_text_encoder") is True and any(name.startswith("t.") for name in _names(m))


def _by_keys(m: Model) -> Origin | None:
    if of_two_towers(m):
        return _made_for("clip.cpp", "foreign", "a text encoder beside that of images (clip.has_text_encoder)")
    for prefix, key, role, why in _KEYS:
        if any(name.startswith(prefix) for name in m.fields):
            return _made_for(key, role, why)
    return None


_KEYS = (
    (
        "prism.hadamard.",
        "prism",
        "foreign",
        "keys prism.hadamard.*: its weights are rotated; llama.cpp would answer with noise",
    ),
)
"""Start of a key -> program, role, what it shows. llama.cpp loads such a file without a word."""


def _by_architecture(m: Model) -> Origin | None:
    arch = m.architecture
    if facts(arch) is not None:
        return None
    from gguftool.facts.programs import architectures

    found = architectures().get(arch)
    if found is None:
        return None
    role, key = found
    return _made_for(key, role, f"architecture {arch}")


# -- by layouts that llama.cpp left behind, and files that hold more than llama.cpp wants

_EXPERT = regex(r"blk\.\d+\.ffn_(?:gate|down|up)\.\d+\.weight")
_TOWERS = ("v.", "mm.", "a.", "s.", "mtp.", "model.vision_tower.")
_MERGED = frozenset(
    "gemma3 gemma3n gemma4 mistral3 llama4 qwen2vl qwen3vl qwen3vlmoe qwen35 qwen35moe deepseek2-ocr glm4 "
    "nemotron_h nemotron_h_moe lfm2".split()
)
"""Architectures of which Ollama keeps the encoder in the file of the language model (`llama/compat/README.md` of
ollama/ollama fb307609): two tensors of it are enough. Of another architecture there have to be several."""
_SEVERAL = 4
_LATENT = (".attn_kv_b.", ".attn_k_b.", ".attn_v_b.")
"""Tensors of files made for the first drafts of latent attention, of early 2025: llama.cpp pull request 12801 says that
it does not take them; ik_llama.cpp 8337e4cd does (`llama-load-tensors.cpp`)."""
_SAME_NAME = {
    "qwen3tts": ("talker.", "code_pred."),
    "nemotron": ("joint.", "encoder.layers."),
    "t5": ("shared.embed.",),
}
"""Architecture of llama.cpp -> how tensors begin in files of CrispASR (72d3c389: models/convert-*) of the same name."""


def _by_layout(m: Model) -> Origin | None:
    if not m.architecture or m.get("general.type") not in (None, "model"):
        return None
    strange = _SAME_NAME.get(m.architecture, ())
    names = [t.name for part in m.parts for t in part.header.tensors]
    together = "\n" + "\n".join(names)
    # Most files have none of it, which is seen at once.
    signs = (*_LATENT, *(f"\n{start}" for start in (*_TOWERS, *strange)))
    if not any(sign in together for sign in signs) and not any(name.count(".") == 4 for name in names):
        return None
    language = False
    towers: list[str] = []
    latent: set[str] = set()
    for t in m.all_tensors():
        if t.name.count(".") == 4 and _EXPERT.fullmatch(t.name):
            return _made_for("llama.cpp-split-experts", "old", f"one tensor for each expert, as {t.name}")
        language = language or t.name.startswith(("blk.", "token_embd."))
        if strange and t.name.startswith(strange):
            return _made_for(
                "crispasr", "audio", f"tensors named as {t.name}, which llama.cpp's {m.architecture} has not"
            )
        latent.update(part for part in _LATENT if part in t.name)
        if t.name.startswith(_TOWERS):
            towers.append(t.name)
    if len(latent) == len(_LATENT) and f"{m.architecture}.attention.key_length_mla" not in m:
        return _made_for("ik_llama.cpp", "foreign", "attn_k_b and attn_v_b beside attn_kv_b, and no key_length_mla")
    enough = 2 if m.architecture in _MERGED else _SEVERAL
    if language and len(towers) >= enough and facts(m.architecture) is not None and m.architecture != "clip":
        why = f"{len(towers):,} tensors of an image or sound encoder in the file of the language model, as {towers[0]}"
        return _made_for("ollama", "foreign", why)
    return None


# -- by the names of tensors, where no key says anything

_IMAGE_TENSOR = regex(
    r"(?:model\.diffusion_model|first_stage_model|cond_stage_model|text_encoders|double_blocks|single_blocks"
    r"|joint_blocks|joint_transformer_blocks|single_transformer_blocks|transformer_blocks|input_blocks|down_blocks"
    r"|double_stream_blocks|double_layers|distilled_guidance_layer|img_in|txt_in|patch_embedding|text_model"
    r"|(?:en|de)coder\.(?:conv_in|down_blocks|up_blocks))\."
)
_AUDIO_TENSOR = regex(r"(?:model\.)?(?:encoder\.(?:conv1|blocks\.\d+\.attn)|decoder\.blocks\.\d+\.cross_attn)\.")
_OWN_TENSOR = regex(
    r"(?:token_embd|token_types|position_embd|output|output_norm|rope_freqs|(?:enc\.|dec\.)?blk\.\d+)\."
)
"""Names that llama.cpp gives to tensors of a language model (`llama-arch.cpp`, b11434)."""
_SIDE = regex(r"(?:v|mm|a|resampler|direction)\.|.*\.(?:lora_[ab]|in_sum2?|counts)$")
"""Names in projectors, control vectors, adapters and importance matrices."""


def _by_tensors(m: Model) -> Origin | None:
    arch = m.architecture
    if facts(arch) is not None:
        return None
    for name in _names(m):
        if _IMAGE_TENSOR.match(name):
            return _made_for("image" if m.fields else "sd.cpp", "image", _named(name, m))
        if _AUDIO_TENSOR.match(name):
            return _made_for("speech", "audio", _named(name, m))
    # Neither an architecture nor a tensor that llama.cpp has a name for: it was not made for llama.cpp.
    names = list(_names(m))
    if arch or not names or not m.header.complete or m.missing_shards:
        return None
    if any(_OWN_TENSOR.match(name) or _SIDE.match(name) for name in names):
        return None
    return _made_for("", "foreign", _named(names[0], m))


def _named(name: str, m: Model) -> str:
    return f"tensors named as {name}" + ("" if m.fields else ", and no key at all")


def _names(m: Model) -> Iterator[str]:
    return (t.name for t in islice(m.all_tensors(), _LOOKED_AT))


_SIGNS: tuple[Callable[[Model], Origin | None], ...] = (_by_types, _by_keys, _by_architecture, _by_layout, _by_tensors)
"""In this order: the first that speaks."""
