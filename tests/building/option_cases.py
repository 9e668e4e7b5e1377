"""Command lines of llama-quantize over small models, and the files they are about."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from gguftool.model import open_model
from tests.building.models import DENSE, MOE, importances, model

RECORDED = Path(__file__).parent.parent / "data" / "building" / "quantize_options.json"
CASES = (
    "d.gguf COPY",
    "s-00001-of-00003.gguf COPY",
    "nameless.gguf COPY",
    "q8.gguf COPY",
    "d.gguf 3",
    "d.gguf 15",
    "d.gguf 0",
    "--prune-layers 0 d.gguf Q4_K_M",
    "--prune-layers 1,1 --tensor-type ffn_down=q8_0 moe.gguf IQ4_XS",
    "--prune-layers 0 d.gguf COPY",
    "--override-kv general.name=str:Tiny --override-kv a.b=float:1.1 --override-kv x=bool:true d.gguf Q4_0",
    "--override-kv z=int:-7 --override-kv general.file_type=int:99 d.gguf COPY",
    "--override-kv llama.attention.head_count_kv=int:4 --override-kv llama.block_count=int:1 d.gguf Q4_K_M",
    "--keep-split s-00001-of-00003.gguf Q4_K_M",
    "--keep-split --prune-layers 1 s-00001-of-00003.gguf COPY",
    "--keep-split d.gguf Q8_0",
    "--imatrix im.gguf --include-weights attn --include-weights up d.gguf Q4_0",
    "--imatrix im.gguf --exclude-weights blk --exclude-weights output d.gguf IQ4_NL",
    "--imatrix im.gguf --prune-layers 0 --override-kv a=int:1 d.gguf Q4_K_M",
    "--tensor-type attn_q=q8_0 --tensor-type-file types.txt d.gguf Q4_K_M",
    "--tensor-type-file types.txt --tensor-type attn_q=q8_0 d.gguf Q4_K_M",
    r"--tensor-type BLK\.\D\.FFN_(up|down)$=q6_k --tensor-type BLK\.1\.FFN_(up|down)\.=q4_1 d.gguf Q4_0",
    "--pure --leave-output-tensor d.gguf Q5_0",
    "--output-tensor-type q8_0 --token-embedding-type q4_0 d.gguf Q4_K_M",
    "nan.gguf COPY",
    "nan.gguf F16",
    "--tensor-type (?i)attn=q8_0 d.gguf Q4_0",
    "--tensor-type attn{=q8_0 d.gguf Q4_0",
)


def write(folder: Path) -> None:
    """The files that the cases name."""
    dense = model(DENSE, "f16")
    dense.write(folder / "d.gguf")
    model(DENSE, "f16").drop("general.file_type").write(folder / "nameless.gguf")
    model(DENSE, "q8_0").write(folder / "q8.gguf")
    model(MOE, "bf16").write(folder / "moe.gguf")
    importances("llama").write(folder / "im.gguf")
    (folder / "types.txt").write_text("attn_q=q5_1\nffn_down=q8_0 ffn_up=Q6_K\n\n")
    values = np.ones(256, "<f4")
    values[3] = np.nan
    model(DENSE, "f16").retensor("output_norm.weight", data=values.tobytes()).write(folder / "nan.gguf")
    with open_model(folder / "d.gguf") as m:
        names = list(m.tensors)
    for no in range(3):
        part = model(DENSE, "f16").drop_tensor(*(n for i, n in enumerate(names) if i // 7 != no))
        part.shard(no, 3, len(names)).write(folder / f"s-{no + 1:05d}-of-00003.gguf")


def recorded() -> dict[str, dict[str, str]]:
    """By case: the hash of each file that came out, by what stands behind the name asked for; none where it refuses."""
    found: dict[str, dict[str, str]] = json.loads(RECORDED.read_text())["sha256"]
    return found
