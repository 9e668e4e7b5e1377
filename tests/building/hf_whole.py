"""Tiny Hugging Face folders of models that have more than a language model: an encoder, dense modules, MTP layers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.building import hf

IMAGE, PATCH, VISION, VISION_FF = 64, 16, 64, 128
Shapes = dict[str, tuple[int, ...]]


def weights(path: Path, shapes: Shapes, name: str = "model.safetensors") -> Path:
    """Write random weights of these shapes."""
    return hf.safetensors(path / name, {n: ("BF16", s, hf.bf16(s, i)) for i, (n, s) in enumerate(shapes.items())})


def tower() -> Shapes:
    """A SigLIP encoder of one layer and Gemma 3's projector, as transformers 4 saves them."""
    head = "vision_tower.vision_model."
    found: Shapes = {
        f"{head}embeddings.patch_embedding.weight": (VISION, 3, PATCH, PATCH),
        f"{head}embeddings.patch_embedding.bias": (VISION,),
        f"{head}embeddings.position_embedding.weight": ((IMAGE // PATCH) ** 2, VISION),
        f"{head}post_layernorm.weight": (VISION,),
        f"{head}post_layernorm.bias": (VISION,),
        "multi_modal_projector.mm_input_projection_weight": (VISION, hf.WIDTH),
        "multi_modal_projector.mm_soft_emb_norm.weight": (VISION,),
    }
    layer = f"{head}encoder.layers.0."
    for part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"):
        found |= {f"{layer}{part}.weight": (VISION, VISION), f"{layer}{part}.bias": (VISION,)}
    for part in ("layer_norm1", "layer_norm2"):
        found |= {f"{layer}{part}.weight": (VISION,), f"{layer}{part}.bias": (VISION,)}
    found |= {f"{layer}mlp.fc1.weight": (VISION_FF, VISION), f"{layer}mlp.fc1.bias": (VISION_FF,)}
    return found | {f"{layer}mlp.fc2.weight": (VISION, VISION_FF), f"{layer}mlp.fc2.bias": (VISION,)}


def vision(path: Path, **config: Any) -> Path:
    """Gemma 3 with eyes."""
    hf.folder(path, "gemma3")
    text = json.loads((path / "config.json").read_text())
    text.pop("architectures")
    whole = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "mm_tokens_per_image": 4,
        "text_config": text,
        "vision_config": {
            "model_type": "siglip_vision_model",
            "hidden_size": VISION,
            "intermediate_size": VISION_FF,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": IMAGE,
            "patch_size": PATCH,
            "layer_norm_eps": 1e-6,
        },
        **config,
    }
    (path / "config.json").write_text(json.dumps(whole, indent=1))
    (path / "preprocessor_config.json").write_text(
        json.dumps({"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "image_seq_length": 4, "size": {"height": IMAGE}})
    )
    weights(path, {f"language_model.{n}": s for n, s in hf.shapes("gemma3").items()} | tower())
    return path


def embedder(path: Path, arch: str = "Gemma3TextModel", pooling: str = "pooling_mode_mean_tokens") -> Path:
    """EmbeddingGemma: pooling, two dense modules, normalisation, as sentence-transformers saves them."""
    hf.folder(path, "gemma3")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "architectures": [arch], "model_type": "gemma3_text"}))
    weights(path, {n.removeprefix("model."): s for n, s in hf.shapes("gemma3").items()})
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense"), ("Dense", "3_Dense")]
    modules.append(("Normalize", "4_Normalize"))
    rows = [
        {"idx": i, "name": str(i), "path": at, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, at) in enumerate(modules)
    ]
    (path / "modules.json").write_text(json.dumps(rows))
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": hf.WIDTH, pooling: True}))
    for name, wide, high in (("2_Dense", hf.WIDTH, hf.FF), ("3_Dense", hf.FF, hf.WIDTH)):
        (path / name).mkdir()
        (path / name / "config.json").write_text(
            json.dumps({"in_features": wide, "out_features": high, "bias": False, "activation_function": "identity"})
        )
        weights(path / name, {"linear.weight": (high, wide)})
    return path
