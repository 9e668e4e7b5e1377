"""Control vectors: names, types and sizes of the directions."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.lint.rule import Context, Draft, Drafts, Severity, found, rule
from gguftool.lint.rules.metadata.blocks import MAX_LAYERS
from gguftool.lint.rules.tensors.groups import MOST, dims, limited
from gguftool.model import Model
from gguftool.model.steering import COUNT, ControlVector, control_vector
from gguftool.near import near_names
from gguftool.predict.steering import overflow
from gguftool.predict.tensors import padded
from gguftool.predict.words import type_name

WITHOUT = "llama.cpp skips the file, and all control vectors given with it, and runs without them"
_F32 = 0


def read(m: Model, ctx: Context) -> ControlVector:
    """The control vector, taken apart once a run."""
    return ctx.once("control vector", lambda: control_vector(m))


@rule(Severity.ERROR, role="control-vector")
def direction_name(m: Model, ctx: Context) -> Drafts:
    """Every tensor of a control vector must be `direction.N`, with N from 1.

    Why. At the first tensor with another name llama.cpp skips the file, says so in two lines of its log, and starts
    without it: the model answers unsteered. Layer 0 has no direction: the state behind the embedding is not steered.
    Evidence. `common.cpp:common_control_vector_load_one` (b11434): "invalid (zero) direction tensor layer index",
    "invalid/unparsable direction tensor layer index"; llama.cpp issues 8060, 8137.
    Example. direction.0 is for layer 0, layers count from 1; llama.cpp skips the file …
    Fix. Make the vector again; of repeng take a release that leaves layer 0 out.
    """
    yield from limited(_names(read(m, ctx)))


def _names(it: ControlVector) -> Iterator[Draft]:
    for i, one in enumerate(d for d in it.directions if d.layer < 1):
        if one.layer == 0:
            text, said = (
                f"{one.name} is for layer 0, layers count from 1",
                "invalid (zero) direction tensor layer index",
            )
        else:
            known = (f"direction.{n}" for n in range(1, 100))
            near = near_names(one.name.lower(), known, 1, 0.8) if i < MOST else []
            text = f"{one.name} is not direction.N{f'; the nearest is {near[0]}' if near else ''}"
            said = "invalid/unparsable direction tensor layer index"
        yield found(f"{text}; {WITHOUT}", where=f"tensor:{one.name}", llama_cpp=said)


@rule(Severity.ERROR, role="control-vector")
def direction_type(m: Model, ctx: Context) -> Drafts:
    """Directions must be F32.

    Why. llama.cpp takes no other type, F16 included: it skips the file and starts without it.
    Evidence. `common.cpp:common_control_vector_load_one` (b11434): "invalid (non-F32) direction tensor type".
    Example. direction.1 is f16, must be f32; llama.cpp skips the file …
    Fix. Make the vector again in f32.
    """
    for one in read(m, ctx).directions:
        if one.info.type_id != _F32:
            text = f"{one.name} is {type_name(one.info.type_id)}, must be f32; {WITHOUT}"
            yield found(text, where=f"tensor:{one.name}", llama_cpp="invalid (non-F32) direction tensor type")
            return


@rule(Severity.ERROR, role="control-vector")
def direction_shape(m: Model, ctx: Context) -> Drafts:
    """Directions must be rows of one width, that of the model.

    Why. At the first that is not, llama.cpp skips the file and starts without it. A width of 0 steers nothing.
    Evidence. `common.cpp:common_control_vector_load_one` (b11434): "invalid (non-1D) direction tensor shape",
    "does not match previous dimensions".
    Example. direction.2 has 32 numbers, direction.1 has 64; llama.cpp skips the file …
    Fix. Make the vector again, all layers from one model.
    """
    yield from limited(_shapes(read(m, ctx)))


def _shapes(it: ControlVector) -> Iterator[Draft]:
    for one in it.directions:
        where, first = f"tensor:{one.name}", it.directions[0]
        if any(n > 1 for n in padded(one.info.shape)[1:]):
            text = f"{one.name} is {dims(one.info.shape)}, must be one row; {WITHOUT}"
            yield found(text, where=where, llama_cpp="invalid (non-1D) direction tensor shape")
        elif one.info.elements != it.width:
            text = f"{one.name} has {one.info.elements:,} numbers, {first.name} has {it.width:,}; {WITHOUT}"
            yield found(text, where=where, llama_cpp="does not match previous dimensions")
        elif not one.info.elements:
            yield found(f"{one.name} has no numbers: it steers nothing", where=where)


@rule(Severity.ERROR, role="control-vector")
def direction_missing(m: Model, ctx: Context) -> Drafts:
    """A control vector must have directions.

    Why. llama.cpp skips a file without tensors and starts without it.
    Evidence. `common.cpp:common_control_vector_load_one` (b11434): "no direction tensors found in …".
    Example. the file has no directions; llama.cpp skips the file …
    Fix. Make the vector again.
    """
    if not read(m, ctx).directions:
        yield found(f"the file has no directions; {WITHOUT}", where="file", llama_cpp="no direction tensors found")


@rule(Severity.ERROR, role="control-vector")
def direction_layer(m: Model, ctx: Context) -> Drafts:
    """Directions must be for layers that a model can have.

    Why. llama.cpp makes a table of all layers up to the highest one. A number above its most layers (512) is for no
    model; with a very large one the size of the table no longer fits 32 bits, and the process dies.
    Evidence. `common.cpp:common_control_vector_load_one`, `llama-hparams.h:LLAMA_MAX_LAYERS` (b11434); measured.
    Example. direction.2147483647 asks for a table of 137,438,953,408 numbers: llama.cpp aborts
    Fix. Make the vector again.
    """
    it = read(m, ctx)
    dies = next((one for one in it.directions if one.layer > 0 and overflow(it.width or 0, one.layer)), None)
    beyond = [one for one in it.directions if one.layer > MAX_LAYERS]
    if dies is not None:
        text = f"{dies.name} asks for a table of {(it.width or 0) * dies.layer:,} numbers: llama.cpp aborts"
        yield found(text, where=f"tensor:{dies.name}", llama_cpp=overflow(it.width or 0, dies.layer), aborts=True)
    elif beyond:
        text = f"{beyond[0].name} is for a layer that no model has, llama.cpp has at most {MAX_LAYERS}: it is not used"
        yield found(text, where=f"tensor:{beyond[0].name}", severity=Severity.WARNING)


@rule(Severity.INFO, role="control-vector")
def direction_twice(m: Model, ctx: Context) -> Drafts:
    """A layer should have one direction.

    Why. Where two names come to the same layer (direction.1 and direction.01) llama.cpp adds both.
    Evidence. `common.cpp:common_control_vector_load_one` (b11434): "allows multiple directions for same layer".
    Example. direction.01 and direction.1 are both for layer 1: they are added
    Fix. None where it was meant.
    """
    first: dict[int, str] = {}
    for one in read(m, ctx).directions:
        if one.layer > 0 and first.setdefault(one.layer, one.name) != one.name:
            text = f"{one.name} and {first[one.layer]} are both for layer {one.layer}: they are added"
            yield found(text, where=f"tensor:{one.name}")
            return


@rule(Severity.INFO, role="control-vector")
def direction_count(m: Model, ctx: Context) -> Drafts:
    """The stated number of layers should be that of the directions.

    Why. Those who make vectors write it; llama.cpp does not read it. Where it differs, directions were lost on the way.
    Evidence. `cvector-generator.cpp:export_gguf` (b11434) and repeng write the number of directions.
    Example. controlvector.layer_count is 31, there are 30 directions
    Fix. None needed; make the vector again if directions were lost.
    """
    it = read(m, ctx)
    if it.stated is not None and it.directions and it.stated != len(it.directions):
        n = len(it.directions)
        text = f"{COUNT} is {it.stated:,}, there {'is 1 direction' if n == 1 else f'are {n:,} directions'}"
        yield found(text, where=f"field:{COUNT}")
