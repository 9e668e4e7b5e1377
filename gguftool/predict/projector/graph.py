"""The graph that is built and measured when a projector is loaded: what the backend and ggml's lists have against it.

A server without a graphics card has one backend, whose answer to "can you do this" is `supports` below
(`ggml-cpu.cpp:ggml_backend_cpu_device_supports_op`, b11434).
"""

from __future__ import annotations

from gguftool.facts.data import load
from gguftool.facts.machine.clip import Clip, Encoder
from gguftool.facts.machine.ends import Abort
from gguftool.facts.machine.ggml import MOST_NODES, Tensor, contiguous

_NOT_ASSIGNED = "GGML_ASSERT(*cur_backend_id != -1) failed"
_F32, _BF16 = 0, 30
_DOT_TYPES = {
    1: 1,
    30: 30,
    **dict.fromkeys((2, 6, 8, 20, 39, 40, 41, 42), 8),
    **dict.fromkeys((3, 7, 9), 9),
    **dict.fromkeys((*range(10, 20), 21, 22, 23, 29, 34, 35), 15),
}
"""The type that a product with weights of a type wants of the other side, beside F32 (`ggml-cpu.c:type_traits_cpu`)."""


def measured(clip: Clip, encoder: Encoder) -> None:
    """Build the graph once, as the warm-up does, with flash attention first.

    Raises:
        Refusal, Abort, Unknown: how it ends.
    """
    nodes = clip.build(encoder)
    if len(nodes) > MOST_NODES:
        raise Abort("GGML_ASSERT(cgraph->n_nodes < cgraph->size) failed")
    ops = _ops()
    for node in nodes.values():
        if not supports(node, ops):
            raise Abort(_NOT_ASSIGNED, _weight_of(node))


def supports(node: Tensor, ops: dict[int, str]) -> bool:
    """Whether a processor computes that node."""
    op = ops.get(node.op, "")
    if op == "MUL_MAT":
        a, b = node.src[0], node.src[1]
        if a is None or b is None:
            return True
        wanted = _DOT_TYPES.get(a.type, _F32)
        return b.type in (_F32, wanted) or (b.type == _BF16 and wanted == _F32)
    if op == "CONV_2D":
        return node.src[0] is None or contiguous(node.src[0])
    return True


def _ops() -> dict[int, str]:
    constants = load("projectors.json")["constants"]
    return {n: key.removeprefix("GGML_OP_") for key, n in constants.items() if key.startswith("GGML_OP_")}


def _weight_of(node: Tensor) -> str:
    """The tensor of the file that a node works on, if only through views."""
    for source in node.src:
        while source is not None and source.op and source.view_src is not None:
            source = source.view_src
        if source is not None and not source.op and source.name:
            return f"tensor:{source.name}"
    return "file"
