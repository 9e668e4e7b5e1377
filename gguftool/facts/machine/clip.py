"""llama.cpp's loading of a projector, run on the keys and tensor shapes of a file (`clip.cpp:clip_init`, b11434).

The program is `data/projectors.json`; here is what it stands on: how keys are read, how tensors are asked for, how a
graph is measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from gguftool.facts.data import load
from gguftool.facts.known import by_known
from gguftool.facts.machine.cplus import CPlusMachine
from gguftool.facts.machine.ends import Abort, Refusal, Unknown
from gguftool.facts.machine.ggml import Tensor, natives, new_tensor
from gguftool.facts.machine.taken import taken
from gguftool.facts.machine.values import Thing
from gguftool.format.header import MANY, Field, TensorInfo
from gguftool.format.types import ARR, VALUE_TYPES, tensor_type_name, value_type_name
from gguftool.records import dataclass, field

VISION, AUDIO, GEN_AUDIO = "vision", "audio", "gen.audio"
ENCODERS = {
    VISION: ("clip.has_vision_encoder", "CLIP_MODALITY_VISION"),
    AUDIO: ("clip.has_audio_encoder", "CLIP_MODALITY_AUDIO"),
    GEN_AUDIO: ("clip.has_gen_audio_encoder", "CLIP_MODALITY_GEN_AUDIO"),
}
"""Encoder -> the key that says there is one, and llama.cpp's name of it."""
F32 = 0
_SIZE_MAX = (1 << 64) - 1
MOST_MEMORY = 256 << 30
"""Bytes of one image above which we say that there is no memory for it."""
MOST_FAULTS = 200
"""Missing tensors behind which nobody looks for more; a number of layers that is wrong makes any number of them."""
_PHRASES = (
    ("unknown projector type", "proj_type"),
    ("feature layer index", "feature_layers"),
    ("layer index", "wa_layer_indexes_vec"),
    ("image_grid_pinpoints", "pinpoints"),
    ("image_mean/image_std", "image_mean"),
)
"""Words of messages that name a number otherwise than the program."""
_TYPE_IDS = {name: id_ for id_, t in VALUE_TYPES.items() for name in (t.name,)}
_GGUF_NAMES = {"i32": "GGUF_TYPE_INT32", "f32": "GGUF_TYPE_FLOAT32"}


def types() -> Mapping[str, str]:
    """Projector types as files name them, by llama.cpp's name: ``PROJECTOR_TYPE_MLP`` -> ``mlp``."""
    found: Mapping[str, str] = load("projectors.json")["types"]
    return found


@by_known(lambda: types().values())
def type_number(name: str) -> int | None:
    """llama.cpp's number of a type that a file names; None for one it does not know."""
    constants = load("projectors.json")["constants"]
    return next((constants[key] for key, word in types().items() if word == name), None)


@cache
def _type_names() -> Mapping[int, str]:
    numbers = load("projectors.json")["constants"]
    known = {n: key for key, n in reversed(numbers.items()) if key.startswith("PROJECTOR_TYPE_")}
    return {n: types().get(key) or key.removeprefix("PROJECTOR_TYPE_").lower() for n, key in known.items()}


def type_name(number: int) -> str:
    """What a file calls the type of that number; that of a type no file can name is llama.cpp's own."""
    return _type_names().get(number, "")


@dataclass(slots=True)
class Asked:
    """A tensor that was asked for.

    Attributes:
        name: its name.
        required: the load fails without it.
        found: it is in the file.
    """

    name: str
    required: bool
    found: bool


@dataclass(slots=True)
class Encoder:
    """One encoder of a projector while it is loaded.

    Attributes:
        modality: a key of `ENCODERS`.
        ctx: llama.cpp's `clip_ctx`.
        asked: tensors in the order of asking.
        read: keys that were read, with their type and whether they must be there.
        places: llama.cpp's names of numbers, with the key each is read from.
        taken: names of the tensors that were found.
    """

    modality: str
    ctx: Thing
    asked: list[Asked] = field(default_factory=list)
    read: dict[str, tuple[str, bool]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    @property
    def model(self) -> Thing:
        found: Thing = self.ctx["model"]
        return found

    @property
    def hparams(self) -> Thing:
        found: Thing = self.model["hparams"]
        return found

    @property
    def kind(self) -> str:
        """The projector type that it came to."""
        return type_name(self.model["proj_type"])


class Clip:
    """The loader over one file: its keys, its tensors, and the encoders that were begun.

    Args:
        fields: records by key, as C reads them.
        tensors: tensors by name.
        collect: go on behind what is missing or of another type; ``faults`` holds it.
    """

    def __init__(
        self, fields: Mapping[str, Field], tensors: Mapping[str, TensorInfo], *, collect: bool = False
    ) -> None:
        self.fields, self.tensors, self.collect = fields, tensors, collect
        self.faults: list[Refusal | Abort] = []
        self.encoders: list[Encoder] = []
        own: dict[str, Callable[..., Any]] = {
            "read_key": self._read,
            "get_tensor": self._tensor,
            "get_vector": self._vector,
            "get_scalar": self._scalar,
            "clip_projector_type_from_string": self._type,
            "lookup_token": lambda text: -1,
            "replaced": lambda text, old, new: text.replace(old, new),
            "ggml_build_forward_expand": self._expand,
            "ggml_build_forward_order": self._expand,
            "ggml_build_forward_select": self._select,
        }
        self.machine = CPlusMachine(load("projectors.json"), {**natives(), **own})
        self.nodes: dict[int, Tensor] = {}
        self.seen: dict[int, Tensor] = {}

    @property
    def warnings(self) -> list[str]:
        """What llama.cpp warned of so far."""
        return self.machine.warnings

    # -- steps of the load

    def has(self, modality: str) -> bool:
        """Whether the file says that it has this encoder."""
        return bool(self._value("bool", ENCODERS[modality][0], False, False))

    def text(self, key: str) -> str:
        """A text that is only shown; of another type it ends the load all the same."""
        return str(self._value("str", key, False, ""))

    def preprocessor(self, encoder: Encoder) -> None:
        """What prepares images or sound for an encoder (`mtmd_context::init_vision`, `init_audio`).

        Raises:
            Refusal, Abort, Unknown: how the load ends there.
        """
        top = self.machine.top
        top["ctx_v"] = top["ctx_a"] = encoder.ctx
        top["init_vision()" if encoder.modality == VISION else "init_audio()"]()

    def begin(self, modality: str) -> Encoder:
        """Keys of one encoder.

        Raises:
            Refusal, Abort, Unknown: how the load ends there.
        """
        top = self.machine.top
        for name in ("has_vision", "has_audio", "has_gen_audio"):
            top[name] = True
        encoder = Encoder(modality, self.machine.new("clip_ctx"))
        self.encoders.append(encoder)
        number = load("projectors.json")["constants"][ENCODERS[modality][1]]
        with self._placed(encoder):
            self.machine.top["load_hparams()"](encoder.model, number)
        return encoder

    def weights(self, encoder: Encoder) -> None:
        """Tensors of one encoder.

        Raises:
            Refusal, Abort, Unknown: how the load ends there.
        """
        self.machine.top["tensors_to_load"] = []
        with self._placed(encoder):
            self.machine.top["load_tensors()"](encoder.ctx)
        if not any(asked.found for asked in encoder.asked):
            raise Abort("GGML_ASSERT(buffer) failed")

    def _batch(self, encoder: Encoder) -> Thing:
        """The image (or the piece of sound) that a graph is measured with.

        Raises:
            Refusal: no memory holds it, or its sizes are refused.
        """
        batch: Thing = self.machine.top["get_dummy_batch()"](encoder.ctx)
        image = batch["entries"][0]
        size = (image["nx_"] & _SIZE_MAX) * (image["ny_"] & _SIZE_MAX) * 3 & _SIZE_MAX
        if size > _SIZE_MAX // 8:
            raise Refusal("vector::_M_default_append")
        if 4 * size > MOST_MEMORY:
            raise Refusal("std::bad_alloc")
        return batch

    def build(self, encoder: Encoder, flash: bool = True) -> dict[int, Tensor]:
        """The nodes of the graph for that image.

        Raises:
            Refusal, Abort, Unknown: how the load ends there.
        """
        constants = load("projectors.json")["constants"]
        # Graphs ask whether it is on, and of nothing else.
        state = "ENABLED" if flash else "AUTO"
        encoder.ctx["flash_attn_type"] = constants[f"CLIP_FLASH_ATTN_TYPE_{state}"]
        self.nodes, self.seen = {}, {}
        with self._placed(encoder):
            batch = self._batch(encoder)
            builder = self.machine.top["clip_get_graph_builder()"](encoder.ctx, batch)
            builder.own("build()")()
        return self.nodes

    @contextmanager
    def _placed(self, encoder: Encoder) -> Iterator[None]:
        """An end that does not say what it follows from is given the tensor it met, or the key its words name."""
        self.machine.last_call = ()
        try:
            yield
        except (Refusal, Abort) as end:
            if end.where == "file":
                end.where = self._place(encoder, end.text)
            if (met := self._met()) and isinstance(end, Abort):
                end.data = {"shapes": [list(t.ne) for t in met], **end.data}
            raise

    def _met(self) -> list[Tensor]:
        """The tensors that the last operation was called with."""
        return [t for t in self.machine.last_call if isinstance(t, Tensor)]

    def _place(self, encoder: Encoder, text: str) -> str:
        if name := next((t.name for t in self._met() if t.name in self.tensors), ""):
            return f"tensor:{name}"
        phrase = next((place for words, place in _PHRASES if words in text), "")
        named = [encoder.places[w] for w in (phrase, *re.findall(r"\w+", text)) if w in encoder.places]
        key = next((key for key in named if key in self.fields), next(iter(named), ""))
        return f"field:{key}" if key else "file"

    def width(self, encoder: Encoder) -> int:
        """Numbers in one embedding it gives (`clip_n_mmproj_embd`).

        Raises:
            Abort: the tensor that tells it is not there.
        """
        return int(self.machine.top["clip_n_mmproj_embd()"](encoder.ctx))

    def most_tokens(self, encoder: Encoder) -> int:
        """Most tokens of one image, -1 where its size is fixed (`clip_get_image_max_tokens`)."""
        return int(self.machine.top["clip_get_image_max_tokens()"](encoder.ctx))

    def tokens(self, encoder: Encoder, width: int, height: int) -> int:
        """Tokens of an image of that size in pixels, or of a piece of sound (`clip_n_output_tokens`)."""
        image = self.machine.new("clip_image_f32")
        image["nx_"], image["ny_"] = width, height
        return int(self.machine.top["clip_n_output_tokens()"](encoder.ctx, image))

    # -- what the program stands on

    def _type(self, name: str) -> int:
        number = type_number(name)
        return int(load("projectors.json")["constants"]["PROJECTOR_TYPE_UNKNOWN"]) if number is None else number

    def _read(self, kind: str, key: str, required: bool, old: Any, place: str) -> Any:
        encoder = self.encoders[-1]
        encoder.read.setdefault(key, (kind, bool(required)))
        encoder.places[place.rpartition(".")[2]] = key
        try:
            return self._value(kind, key, required, old)
        except (Refusal, Abort) as end:
            if not self.collect:
                raise
            self.faults.append(end)
            return old

    def _value(self, kind: str, key: str, required: bool, old: Any) -> Any:
        where = f"field:{key}"
        f = self.fields.get(key)
        if f is None:
            if required:
                raise Refusal(f"Key not found: {key}", where)
            return old
        if kind.startswith("arr "):
            return self._array(kind[4:], key, f)
        value = taken(self.fields, key, kind)
        if kind == "u32" and value > 0x7FFFFFFF:
            raise Refusal(f"get_u32: value {value} for key '{key}' exceeds INT32_MAX\n", where)
        return value

    @staticmethod
    def _array(element: str, key: str, f: Field) -> list[Any]:
        where, name = f"field:{key}", f"get_arr_{'int' if element == 'i32' else element}"
        if f.type != ARR:
            raise Refusal(f"{name}: key '{key}' is not an array\n", where, expected=f"arr[{element}]", got=f.type_name)
        if value_type_name(-1 if f.element_type is None else f.element_type) != element:
            expected = f"{_TYPE_IDS[element]} ({_GGUF_NAMES[element]})"
            text = f"{name}: array '{key}' has type {f.element_type}, expected {expected}\n"
            raise Refusal(text, where, expected=f"arr[{element}]", got=f.type_name)
        if (f.count or 0) > MANY:
            raise Unknown(f"{key} has {f.count:,} elements, more than are looked at", where)
        return f.head(MANY)

    def _tensor(self, name: str, required: bool = True) -> Tensor | None:
        encoder = self.encoders[-1]
        if name in encoder.taken:
            raise Refusal(f"operator(): tensor already loaded: {name}\n", f"tensor:{name}")
        info = self.tensors.get(name)
        encoder.asked.append(Asked(name, bool(required), info is not None))
        if info is None:
            if required:
                self._missing(Refusal(f"operator(): unable to find tensor {name}\n", f"tensor:{name}"))
            return None
        encoder.taken.add(name)
        made = new_tensor(info.type_id, [int(n) for n in info.shape] or [1])
        made.name = name
        self.machine.top["tensors_to_load"].append(made)
        return made

    def _missing(self, end: Refusal) -> None:
        if not self.collect or len(self.faults) >= MOST_FAULTS:
            raise end
        self.faults.append(end)

    def _vector(self, name: str) -> list[float]:
        info = self.tensors.get(name)
        if info is None:
            return []
        if info.type_id != F32:
            text = f"operator(): {name} must be f32, was {tensor_type_name(info.type_id).lower()}\n"
            raise Refusal(text, f"tensor:{name}")
        if not info.nbytes:
            raise Refusal(f"operator(): tensor {name} is empty\n", f"tensor:{name}")
        return [0.0] * min(info.elements, 1 << 20)

    def _scalar(self, name: str, default: float) -> float:
        found = self._vector(name)
        if found and len(found) != 1:
            text = f"operator(): expected scalar tensor '{name}' but got {len(found)} elements\n"
            raise Refusal(text, f"tensor:{name}")
        return 0.0 if found else default

    def _expand(self, _: Any, last: Tensor | None) -> None:
        """`ggml_build_forward_expand`: all that a tensor is made from, then itself."""
        if last is None:
            raise Abort("null pointer (SIGSEGV)")
        waiting: list[tuple[Tensor, int]] = [(last, 0)]
        while waiting:
            tensor, at = waiting.pop()
            if at == 0 and id(tensor) in self.seen:
                continue
            self.seen[id(tensor)] = tensor
            parts = [s for s in tensor.src if s is not None]
            if at < len(parts):
                waiting += [(tensor, at + 1), (parts[at], 0)]
            else:
                self.nodes[id(tensor)] = tensor

    def _select(self, _: Any, tensors: Any, n: int, at: int) -> Tensor:
        for tensor in list(tensors)[:n]:
            self._expand(None, tensor)
        found: Tensor = tensors[at]
        return found


def begun(clip: Clip, modality: str) -> tuple[Encoder | None, bool]:
    """An encoder with its keys read as far as they go, and whether that is to the end."""
    try:
        return clip.begin(modality), True
    except (Refusal, Abort, Unknown):
        return (clip.encoders[-1] if clip.encoders else None), False
