"""What llama.cpp makes of the keys of a file: its hyperparameters, after the loading function of the architecture.

The load maps are run over the values as they are. Nothing stops here: a key of a wrong type counts as absent, a
failed check is noted and passed over, for a plan is wanted of a file with faults as well. Whether llama.cpp would load
it is another question (`gguftool.predict`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from gguftool.brief import short_repr
from gguftool.facts.machine.ends import Abort, Refusal, Unknown
from gguftool.facts.machine.hparams import MAX_LAYERS
from gguftool.facts.machine.program import Machine
from gguftool.facts.machine.reader import Reader
from gguftool.facts.machine.rows import common, has_program, machine_of, program
from gguftool.records import dataclass

Stored = Callable[[str], tuple[int, ...] | None]
"""Shape of a tensor of the file by its name; None: it has none of that name."""
_EMPTY = {"u32": 0, "i32": 0, "u64": 0, "f32": 0.0, "bool": False, "str": ""}
_WANTED = {"f32": (int, float), "str": (str,)}


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer as llama.cpp sees it after loading.

    Attributes:
        index: from 0; ``blk.N`` of the tensor names, but for looped layers.
        heads_kv: KV heads.
        key_length, value_length: head sizes of K and V in elements.
        swa: attends to a sliding window only.
        recurrent: keeps a state instead of, or beside, a KV cache.
        trunk: False for next-token prediction layers, which the main context leaves out.
        feed_forward: width of the feed-forward part, 0 when there is none.
    """

    index: int
    heads_kv: int
    key_length: int
    value_length: int
    swa: bool
    recurrent: bool
    trunk: bool
    feed_forward: int

    __repr__ = short_repr

    @property
    def k_width(self) -> int:
        """Elements of K a token, all KV heads together."""
        return self.heads_kv * self.key_length

    @property
    def v_width(self) -> int:
        """Elements of V a token, all KV heads together."""
        return self.heads_kv * self.value_length


class Values(Reader):
    """Reads decoded values as `Reader` reads records, and never stops.

    Args:
        arch: the prefix of the keys.
        get: value of a whole key, or None.
        count: length of the array of a whole key, 0 for none; None: it is decoded to be counted.

    Attributes:
        asked: whole keys that were looked for.
        faults: what llama.cpp would have stopped at, as far as values tell.
    """

    def __init__(self, arch: str, get: Callable[[str], object], count: Callable[[str], int] | None = None) -> None:
        super().__init__({}, arch)
        self._get = get
        self._count = count
        self.asked: set[str] = set()
        self.faults: list[str] = []

    def refuse(self, text: str, where: str = "file") -> None:
        """Note it and go on."""
        self.faults.append(text)

    abort = refuse

    def _value(self, key: str) -> object:
        full = self.full(key)
        self.asked.add(full)
        return self._get(full)

    def scalar(self, key: str, type_name: str, required: bool = False) -> Any:
        """The value, None when it is absent or of another kind; 0 in its place when it is required."""
        value = self._value(key)
        if type_name == "bool":
            fits = isinstance(value, bool)
        else:
            fits = isinstance(value, _WANTED.get(type_name, (int,))) and not isinstance(value, bool)
        if fits:
            # A count of layers nobody can have must not make this program allocate for them.
            return min(int(value), MAX_LAYERS) if key == "block_count" else value  # type: ignore[call-overload]
        if value is not None or required:
            self.faults.append(self.full(key))
        return _EMPTY[type_name] if required else None

    def array(self, key: str, element: str, most: int, required: bool = True) -> list[Any] | None:
        """Elements of an array, cut to the most llama.cpp keeps."""
        value = self._value(key)
        if not isinstance(value, Sequence) or isinstance(value, str):
            return [] if required else None
        items = list(value)[: most or None]
        if element == "str":
            return items
        # Text in the place of numbers is a fault of the file with a rule of its own.
        return [(x if element == "f32" else int(x)) if isinstance(x, int | float) else 0 for x in items]

    def array_length(self, key: str, required: bool = True) -> int | None:
        """Length of an array."""
        if self._count is not None and (n := self._count(self.full(key))):
            self.asked.add(self.full(key))
            return n
        value = self._value(key)
        if isinstance(value, Sequence) and not isinstance(value, str):
            return len(value)
        return 0 if required else None

    def per_layer(self, key: str, element: str, n: int, most: int, required: bool = True) -> list[Any] | None:
        """``n`` values: an array, cut or filled up with 0, or one value for all."""
        value = self._value(key)
        if isinstance(value, Sequence) and not isinstance(value, str):
            items = (self.array(key, element, most, required) or [])[:n]
            return items + [0] * (n - len(items))
        one = self.scalar(key, element, required)
        return None if one is None else [one] * n

    def scalar_only(self, key: str, required: bool = True) -> int | None:
        """A whole number."""
        value = self.scalar(key, "u32", required)
        return None if value is None else int(value)


class Shape:
    """The hyperparameters of one model as llama.cpp has them after loading.

    Attributes:
        complete: False where a value ended the computation early; what was known by then counts.
        asked: whole keys that llama.cpp looks for in this very file.
    """

    def __init__(
        self,
        arch: str,
        get: Callable[[str], object],
        stored: Stored | None = None,
        count: Callable[[str], int] | None = None,
    ) -> None:
        reader = Values(arch, get, count)
        self.complete = has_program(arch)
        self.machine = Machine(reader, {"n_layer_all": 0, "n_layer_nextn": 0, "n_head_arr": [0] * MAX_LAYERS})
        try:
            h = common(reader)
            h["n_layer_nextn"] = min(h["n_layer_nextn"], h["n_layer_all"])
            self.machine = machine_of(reader, h)
            # Where no tensors are at hand, what a file says of its extra layers is believed.
            self.machine.stored = stored or (lambda name: (1,))
            if self.complete:
                self.machine.run(program(arch, "hparams"))
        except (Refusal, Abort, Unknown, ArithmeticError, LookupError, TypeError, ValueError):
            self.complete = False
        self.asked = frozenset(reader.asked)

    def number(self, name: str) -> int:
        """A hyperparameter by llama.cpp's name, 0 where nothing set it."""
        value = self.machine.h.get(name, 0)
        return int(value) if isinstance(value, int | float) else 0

    def of_layer(self, name: str, layer: int) -> int:
        """A method of `llama_hparams` for one layer, 0 beyond the last that llama.cpp has room for."""
        return int(self.machine.names[f"{name}()"](layer)) if layer < MAX_LAYERS else 0

    def at(self, name: str, layer: int) -> int:
        """An entry of an array with one number a layer, 0 beyond its end."""
        values = self.machine.h.get(name, ())
        return int(values[layer]) if layer < len(values) else 0

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """All layers, the loops of looped models and those of next-token prediction included."""
        count = self.number("n_layer_all")
        trunk = count - self.number("n_layer_nextn")
        return tuple(
            Layer(
                i,
                self.at("n_head_kv_arr", i),
                self.of_layer("n_embd_head_k", i),
                self.of_layer("n_embd_head_v", i),
                bool(self.at("is_swa_impl", i)),
                bool(self.at("is_recr_impl", i)),
                i < trunk,
                self.at("n_ff_arr", i),
            )
            for i in range(count)
        )

    @property
    def windowed(self) -> bool:
        """Some layers keep a window of the context only, however small it is."""
        return bool(self.machine.h.get("swa_type", "none") != "none")

    @property
    def window(self) -> int:
        """The sliding window in tokens; 0 when there is none, or one of no tokens."""
        return self.number("n_swa") if self.windowed else 0

    @property
    def mla(self) -> bool:
        """K is a latent and there is no V cache (`llama_hparams::is_mla`)."""
        return bool(self.number("n_embd_head_k_mla_impl") and self.number("n_embd_head_v_mla_impl"))

    @property
    def rope_base_swa(self) -> float:
        """RoPE base of layers with a window."""
        return float(self.machine.h.get("rope_freq_base_train_swa", 0.0))
