"""A proposed mixture as text and JSON, and the commands that make it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gguftool.api.mix import MEASURED, USUAL, Mixed
from gguftool.build.mix.propose import Part, Proposal
from gguftool.build.mixture import Overrides
from gguftool.build.quantize import Options, Quantized
from gguftool.records import replace
from gguftool.regex import regex
from gguftool.report.text import Style, count, safe, size, table
from gguftool.shell import gguftool, path_word

_LAYER = regex(r"blk\.([0-9]{1,9})\.(.*)", re.DOTALL)
_SHOWN = 6
"""Stretches of layers of one row that are shown."""


def type_file(proposal: Proposal) -> str:
    """The mixture as llama-quantize's ``--tensor-type-file`` has it, one pattern a line."""
    return "".join(f"{pattern}={kind}\n" for pattern, kind in proposal.patterns)


def is_type_file(begin: bytes) -> bool:
    """Whether a file with these first bytes is such a list."""
    return all(re.fullmatch(rb"\S+=[A-Za-z0-9_]+", word) for word in begin[:4096].split()[:1])


def with_types(options: Options, proposal: Proposal) -> Options:
    """The options that make it."""
    return replace(options, overrides=Overrides(tensor_types=proposal.patterns))


def command(model: str, proposal: Proposal, options: Options, saved: str | None, output: str | None) -> str:
    """The command of our own quantiser that makes it."""
    words = ["quantize", path_word(model), path_word(output or _beside(model, proposal)), proposal.label]
    if saved:
        words += ["--tensor-type-file", path_word(saved)]
    else:
        for pattern, kind in proposal.patterns:
            words += ["--tensor-type", f"{pattern}={kind.lower()}"]
    if options.imatrix:
        words += ["--imatrix", path_word(options.imatrix)]
    if options.allow_requantize:
        words.append("--allow-requantize")
    if not options.provenance:
        words.append("--no-provenance")
    return gguftool(*words, "--engine", "builtin")


def _beside(model: str, proposal: Proposal) -> str:
    """A name for the result, as `gguftool quantize` would give it one."""
    stem = re.sub(r"(-\d{5}-of-\d{5})?(\.gguf)?/?$", "", model if "://" not in model else model.rsplit("/", 1)[-1])
    stem = re.sub(r"[-._](f32|f16|bf16|fp16|fp32)$", "", stem, flags=re.IGNORECASE)
    return f"{stem}-mix-{re.sub('[^0-9A-Za-z._]+', '', proposal.limit.text)}.gguf"


def text(mixed: Mixed, model: str, style: Style) -> str:
    """What goes where, the size, and what it is told to lose."""
    p = mixed.proposal
    plan = p.plan
    rows = [
        [
            kind,
            name,
            safe(layers),
            size(sum(x.size for x in parts)),
            f"{100 * sum(x.loss for x in parts) / p.loss:.0f} %",
        ]
        if p.loss > 0
        else [kind, name, safe(layers), size(sum(x.size for x in parts)), "-"]
        for (kind, name), (layers, parts) in _rows(p.parts).items()
    ]
    lines = [
        f"{style.bold(model)} within {_limit(p)}",
        table(rows, ["tensors", "type", "layers", "size", "of the loss"], align="lllrr", style=style),
        "",
        f"  size   {plan.file_size:,} bytes ({size(plan.file_size)}), {plan.bits_per_weight:.3f} bits per weight",
        f"  types  {', '.join(f'{name} {100 * n / plan.data_size:.0f}%' for name, n in plan.mix.items() if n)}",
        f"  loss   {_loss(mixed)}",
    ]
    return "\n".join(lines)


def _limit(p: Proposal) -> str:
    if p.limit.like:
        return f"{p.limit.file_size:,} bytes, the size of llama.cpp's own {p.limit.like}"
    if p.limit.bits_per_weight is not None:
        return f"{p.limit.bits_per_weight:g} bits per weight"
    return f"{p.limit.file_size:,} bytes"


def _loss(mixed: Mixed) -> str:
    p = mixed.proposal
    unit = " nats of divergence" if mixed.how != USUAL else ""
    said = f"{p.loss:.4g}{unit} expected"
    if mixed.own is not None and p.loss > 0:
        said += f"; llama.cpp's own {p.limit.like}: {mixed.own:.4g}"
    if mixed.sensed is not None:
        s = mixed.sensed
        said += f" (measured: {len(s.senses)} groups of tensors, {count(s.tokens)} tokens of {safe(s.text)} each)"
    elif mixed.how == USUAL:
        said += " (from weights alone, with what tensors of their kind usually mind: an order, no measure)"
    return said


def _rows(parts: Sequence[Part]) -> dict[tuple[str, str], tuple[str, list[Part]]]:
    """Parts by kind and type, with the layers as people write them."""
    groups: dict[tuple[str, str], tuple[list[int], list[Part]]] = {}
    for part in parts:
        match = _LAYER.fullmatch(part.name)
        kind = safe((match[2] if match else part.name).removesuffix(".weight"))
        layers, members = groups.setdefault((kind, part.type), ([], []))
        members.append(part)
        if match:
            layers.append(int(match[1]))
    order = {kind: i for i, (kind, _) in reversed(list(enumerate(groups)))}
    return {
        key: (_stretches(layers), members)
        for key, (layers, members) in sorted(groups.items(), key=lambda item: order[item[0][0]])
    }


def _stretches(layers: Sequence[int]) -> str:
    """``0-3 7 9-12``."""
    out: list[list[int]] = []
    for n in sorted(layers):
        if out and n == out[-1][1] + 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    words = [f"{a}-{b}" if b > a else str(a) for a, b in out]
    return " ".join(words[:_SHOWN]) + (f" … ({len(layers)} layers)" if len(words) > _SHOWN else "")


def body(mixed: Mixed, command: str, saved: str | None, done: Quantized | None) -> dict[str, object]:
    """The same as data."""
    p = mixed.proposal
    found: dict[str, object] = {
        "target": p.limit.text,
        "like": p.limit.like or None,
        "limit_bytes": p.limit.file_size or None,
        "limit_bits_per_weight": p.limit.bits_per_weight,
        "type": p.label,
        "file_size": p.plan.file_size,
        "data_size": p.plan.data_size,
        "bits_per_weight": p.plan.bits_per_weight,
        "mix": p.plan.mix,
        "loss": p.loss,
        "bound": p.bound,
        "own_loss": mixed.own,
        "sensitivity": mixed.how if mixed.how in (MEASURED, USUAL) else "file",
        "kernels": mixed.kernels,
        "tensor_types": [f"{pattern}={kind}" for pattern, kind in p.patterns],
        "command": command,
        "saved": saved,
        "output": done.path if done else None,
        "size": done.size if done else None,
        "seconds": round(done.seconds, 3) if done else None,
        "warnings": list(p.plan.warnings),
        "tensors": [
            {
                "name": x.name, "type": x.type, "bytes": x.size, "sensitivity": x.sensitivity, "error": x.error,
                "errors": dict(x.could),
            }
            for x in p.parts
        ],
    }  # fmt: skip
    s = mixed.sensed
    found["measured"] = s and {
        "text": s.text,
        "tokens": s.tokens,
        "perplexity": s.perplexity,
        "groups": [
            {
                "kind": x.kind, "layers": list(x.layers) if x.layers else None, "tensors": len(x.names),
                "error": x.error, "divergence": x.divergence, "deviation": x.deviation,
            }
            for x in s.senses
        ],
    }  # fmt: skip
    return found
