"""What a projector's tensors must be: there, and of shapes that its graph can be built of."""

from __future__ import annotations

from gguftool.edit.ops import Set
from gguftool.lint.predicted import newest
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule
from gguftool.lint.rules.projector.encoders import surveyed
from gguftool.lint.rules.projector.keys import mend_of
from gguftool.model import Model
from gguftool.near import near_names
from gguftool.predict.projector.survey import Fault

_TOLD = 8
"""Missing tensors that are told one by one."""


@rule(Severity.ERROR, role="mmproj")
def projector_tensor_missing(m: Model, ctx: Context) -> Drafts:
    """Every tensor that a projector of this type must have must be there.

    Why. llama.cpp asks for each by its name and refuses the file at the first that is missing.
    Evidence. `clip.cpp:load_tensors` (b11434): "unable to find tensor"; which tensors a type needs, for its number of
    layers, is generated from it.
    Example. mm.2.weight is missing, which llama.cpp needs of a projector of type pixtral
    Fix. Convert again with a current converter; a name that only resembles it may be of an older or newer one.
    """
    missing = [f for f in surveyed(m, ctx).faults if "unable to find tensor" in f.line]
    mend = mend_of(m, ctx) if missing else None
    if mend is not None:
        key, value = mend
        fix = Fix(f"set {key} to {value}", (Set(key, value, "u32"),), safe=True)
        names = [f.where.removeprefix("tensor:") for f in missing]
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        text = f"{names[0]}{more} missing: {key} is {m.get(key)}, the tensors say {value}"
        yield found(text, where=f"field:{key}", fix=fix, llama_cpp=missing[0].line, tensors=names[:_TOLD])
        return
    for fault in missing[:_TOLD]:
        name = fault.where.removeprefix("tensor:")
        near = near_names(name, (t.name for t in m.all_tensors()), 1, 0.9)
        like = f"; the nearest one is {near[0]}" if near else ""
        more = f"; {len(missing) - 1:,} are missing in all" if fault is missing[0] and len(missing) > _TOLD else ""
        text = f"{name} is missing, which llama.cpp needs of a projector of type {fault.kind}{like}{more}"
        yield found(text, where=fault.where, llama_cpp=fault.line)


@rule(Severity.ERROR, role="mmproj")
def projector_tensor_shape(m: Model, ctx: Context) -> Drafts:
    """The tensors must have shapes that the encoder's graph can be built of.

    Why. llama.cpp does not compare shapes with what it expects; it builds the graph once while it loads, and where two
    of them do not fit a failed assertion ends the whole server.
    Evidence. The functions of `tools/mtmd/models` and of `ggml.c` (b11434), which are run as they stand.
    Example. mm.input_projection.weight does not fit into the graph: GGML_ASSERT(ggml_can_mul_mat(a, b)) failed
    Fix. A key that is wrong, where the tensors tell it; else convert again.
    """
    faults = [f for f in surveyed(m, ctx).faults if f.stage == "graph" or (f.stage == "tensors" and not _missing(f))]
    for fault in faults:
        mend = mend_of(m, ctx)
        name = fault.where.removeprefix("tensor:") if fault.where.startswith("tensor:") else ""
        if mend is not None:
            key, value = mend
            fix = Fix(f"set {key} to {value}", (Set(key, value, "u32"),), safe=True)
            text = f"{key} is {m.get(key)}, the tensors say {value}: llama.cpp {_end(fault)}"
            yield found(text, where=f"field:{key}", fix=fix, llama_cpp=fault.line)
            continue
        what = f"{name} {_sizes(m, name)}does not fit into the graph" if name else "the shapes do not fit together"
        shapes = fault.data.get("shapes")
        yield found(f"{what}: {fault.line}", where=fault.where, llama_cpp=fault.line, shapes=shapes)


def _missing(fault: Fault) -> bool:
    return "unable to find tensor" in fault.line


def _end(fault: Fault) -> str:
    return f"{'aborts' if fault.aborts else 'refuses the file'}: {fault.line}"


def _sizes(m: Model, name: str) -> str:
    t = m.tensors.get(name)
    return f"({' x '.join(map(str, t.shape))}) " if t is not None else ""


@rule(Severity.ERROR, role="mmproj")
def projector_tensor_type(m: Model, ctx: Context) -> Drafts:
    """The weights must be of types that a processor multiplies.

    Why. The graph is given to the backend while it loads; a product that it has no kernel for ends the server.
    Evidence. `ggml-cpu.cpp:ggml_backend_cpu_device_supports_op`, `ggml-backend.cpp` (b11434):
    "GGML_ASSERT(*cur_backend_id != -1) failed".
    Example. v.patch_embd.weight is i32: no backend computes with it
    Fix. Convert again with f16 or f32.
    """
    load = newest(m, ctx)
    if load.verdict != "aborts" or "cur_backend_id" not in load.first_error:
        return
    name = load.where.removeprefix("tensor:")
    t = m.tensors.get(name)
    what = f"{name} is {t.type_name}" if t is not None else "a weight has a type"
    yield found(f"{what}: no backend computes with it", where=load.where, llama_cpp=load.first_error)
