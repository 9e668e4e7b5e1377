"""``gguftool mix`` beside llama.cpp's own mixtures of the same size: KL divergence and perplexity on texts of yours.

``python -m benchmarks.mix TEXT [TEXT …] [--model F16.gguf] [--types Q4_K_M,Q4_0] [--tokens 1024]``. Without a model it
makes the references of docs/mix.md: SmolLM2-135M and gemma-3-270m, turned into F16, each weight moved by up to half the
step of its grid (uniform, fixed seed), for these models are packaged quantised only, and a type with their grid would
lose nothing. Sensitivities are measured on the packaged text, which should be none of yours. llama.cpp's mixtures are
made by the built-in quantiser, whose bytes are llama-quantize's. Hours on two cores.

Exit code 1 when a mixture is larger, or its divergence is not below that of llama.cpp's own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
from gguftool.api.mix import MEASURED, Ways, mix
from gguftool.build.quantize import Options, quantize
from gguftool.report.mix import body, with_types
from gguftool.run.divergence import Reader, apart, divergence
from tests.real_models import GEMMA3, SMOLLM2, ensure

TYPES = "Q6_K,Q5_K_M,Q4_K_M,Q4_K_S,Q3_K_M,Q4_0,IQ4_XS,Q2_K"
SEED = 20261130


def step(raw: Any, kind: Any) -> Any:
    """The step of the grid at each weight, as an array of rows; ``raw`` is bytes by row."""
    import gguf
    import numpy as np
    from gguf import quants

    size, nbytes = gguf.GGML_QUANT_SIZES[kind]
    blocks = np.ascontiguousarray(raw).reshape(-1, nbytes)

    def f16(at: int) -> Any:
        return np.ascontiguousarray(blocks[:, at : at + 2]).view(np.float16).astype(np.float32)

    if kind.name == "Q4_K":
        scales = quants.Q4_K.get_scale_min(np.ascontiguousarray(blocks[:, 4:16]))[0]
        steps = np.repeat(f16(0).reshape(-1, 1) * scales.astype(np.float32), 32, axis=1)
    elif kind.name == "Q6_K":
        scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32)
        steps = np.repeat(f16(208) * scales, 16, axis=1)
    else:
        steps = np.repeat(f16(0), size, axis=1)
    return np.abs(steps)


def reference(source: Path, output: Path) -> Path:
    """``source`` in F16, its weights moved off their grid."""
    import gguf
    import numpy as np
    from gguf import quants

    read = gguf.GGUFReader(source)
    arch = bytes(read.fields["general.architecture"].parts[-1]).decode()
    write = gguf.GGUFWriter(output, arch)
    random = np.random.Generator(np.random.PCG64(SEED))
    for f in read.fields.values():
        if f.name.startswith("GGUF.") or f.name in ("general.architecture", "general.file_type"):
            continue
        if f.name != "general.quantization_version":
            write.add_key_value(f.name, f.contents(), f.types[0], sub_type=f.types[-1] if len(f.types) > 1 else None)
    write.add_file_type(1)
    for t in read.tensors:
        shape = tuple(int(n) for n in reversed(t.shape))
        if t.tensor_type.name == "F32":
            write.add_tensor(t.name, t.data.reshape(shape))
            continue
        x = quants.dequantize(t.data, t.tensor_type).reshape(shape).astype(np.float32)
        x += step(t.data, t.tensor_type).reshape(shape) * (random.random(shape, np.float32) - np.float32(0.5))
        write.add_tensor(t.name, x.astype(np.float16))
    write.write_header_to_file()
    write.write_kv_data_to_file()
    write.write_tensors_to_file()
    write.close()
    return output


def rows(model: Path, folder: Path, types: list[str], texts: list[str], tokens: int) -> bool:
    """One line for each size and text; whether all hold."""
    plain = Options(engine="builtin", provenance=False, overwrite=True)
    known = folder / "first.json"
    good = True
    for name in types:
        theirs, ours = folder / "theirs.gguf", folder / "ours.gguf"
        own = quantize(model, theirs, name, plain).size
        found = mix(model, f"{own}B", Ways(sensitivity=str(known) if known.exists() else MEASURED), plain)
        if not known.exists():
            known.write_text(json.dumps(body(found, "", None, None)))
        size = quantize(model, ours, found.proposal.label, with_types(plain, found.proposal)).size
        good = good and size <= own
        for text in texts:
            read = divergence([Reader(str(p)) for p in (model, theirs, ours)], text=text, tokens=tokens)
            base, a, b = read.outcomes
            less, error = apart(b, a)
            good = good and less > 0
            print(
                f"{model.stem} {name} {own:,} {size:,} {Path(text).name}:",
                f"KL {a.divergence:.4f} ± {a.divergence_error:.4f},",
                f"mix {b.divergence:.4f} ± {b.divergence_error:.4f} (less by {less:.4f} ± {error:.4f});",
                f"perplexity {base.perplexity:.2f}: {a.perplexity:.2f}, mix {b.perplexity:.2f}",
                flush=True,
            )
    return good


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("texts", nargs="+", metavar="TEXT")
    ask.add_argument("--model", type=Path)
    ask.add_argument("--types", default=TYPES)
    ask.add_argument("--tokens", type=int, default=1024)
    given = ask.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        sources = (
            [given.model] if given.model else [reference(ensure(m), folder / m.filename) for m in (SMOLLM2, GEMMA3)]
        )
        for source in sources:
            (folder / source.stem).mkdir()
            good = rows(source, folder / source.stem, given.types.split(","), given.texts, given.tokens) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
