"""Two files beside each other: what llama.cpp b11434 makes of them, told from their headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gguftool.errors import UsageError
from gguftool.lint.rules import catalogue
from gguftool.model import Model, from_source
from gguftool.predict import pairs
from gguftool.predict.pairs import BESIDE, Misfit, misfits
from gguftool.source import Memory
from tests.beside import control_vector, imatrix, lora, measured, projector, sighted
from tests.build import GGUF, llama
from tests.projectors import SOUND


def opened(g: GGUF, name: str = "side.gguf") -> Model:
    return from_source(Memory(g.bytes(), name), strict=False)


def fit(side: GGUF, model: GGUF | None = None, given_as: str | None = None) -> list[Misfit]:
    return list(misfits(opened(model or llama(layers=3), "model.gguf"), opened(side), given_as))


def kinds(found: list[Misfit]) -> list[tuple[str, str]]:
    return [(m.rule, m.outcome) for m in found]


def test_a_fitting_control_vector_draft_and_imatrix():
    assert not fit(control_vector())
    assert not fit(llama())
    assert not fit(imatrix(measured()))
    assert not fit(lora())


@pytest.mark.parametrize("kind", ["mlp", "gemma3", "idefics3"])
def test_a_projector_of_another_width(kind):
    """`mtmd.cpp:mtmd_context` (b11434); the width is that of the tensors, whatever the key says."""
    (found,) = fit(projector(kind, 96).replace("clip.vision.projection_dim", 64), sighted())
    assert (found.rule, found.outcome) == ("pair-width", "refused")
    assert found.said == ("mismatch between text model (n_embd = 64) and mmproj (n_embd = 96)",)
    assert not fit(projector("mlp").replace("clip.vision.projection_dim", 96), sighted())


def test_a_model_whose_deep_layers_see_the_image_takes_more():
    """`llama-hparams.cpp:n_embd_inp`: the width of a Qwen3-VL is that of all its image paths."""
    model = llama(layers=3, arch="qwen3vl").kv("qwen3vl.n_deepstack_layers", 2)
    model.kv("qwen3vl.rope.dimension_sections", [8, 4, 4, 0], "[i32]")
    (found,) = fit(projector("mlp"), model)
    assert found.said == ("mismatch between text model (n_embd = 192) and mmproj (n_embd = 64)",)
    assert not fit(projector("mlp", 192), model)


def test_a_projector_of_another_family():
    """Its width is right, so llama.cpp says nothing; its texts around an image are no tokens here."""
    assert not fit(projector(), sighted())
    (found,) = fit(projector(), llama(800))
    assert (found.rule, found.outcome) == ("pair-markers", "doubt")
    assert "'<start_of_image>'" in found.message
    assert not fit(projector(), llama()), "a vocabulary for tests says nothing by what it lacks"
    assert not fit(projector(), sighted("<end_of_image>")), "one of the two is enough of a sign"


def test_a_projector_whose_tokens_are_looked_up():
    """Measured with llama-server b11434: it starts, and answers 400 Invalid token."""
    (found,) = fit(projector("idefics3"), llama(layers=3))
    assert (found.rule, found.outcome) == ("pair-markers", "ignored")
    assert found.said == ("Invalid token",)
    assert not fit(projector("idefics3"), sighted("<fake_token_around_image>", "<global-img>"))


def test_a_projector_whose_tokens_are_looked_up_for_large_images_alone():
    """Measured: 200 for 56 by 56 pixels, 400 Invalid token for 1,024 by 768."""
    (found,) = misfits(opened(llama(layers=3)), opened(SOUND["lfm2"]().gguf()))
    assert (found.rule, found.outcome) == ("pair-markers", "harm")
    assert found.data["missing"] == ["<|img_thumbnail|>"]


def test_a_control_vector_of_another_width_is_ignored():
    (found,) = fit(control_vector(width=96))
    assert (found.rule, found.outcome, found.stops) == ("pair-width", "ignored", True)
    assert found.said == ("apply: control vector n_embd does not match model",)


def test_a_control_vector_for_more_layers():
    assert kinds(fit(control_vector(layers=(1, 2, 3)))) == [("pair-layers", "harm")]
    assert kinds(fit(control_vector(layers=(7, 8)))) == [("pair-layers", "ignored")]


APPLY = "llama_adapter_lora_init_from_file_ptr: failed to apply lora adapter: "


@pytest.mark.parametrize(
    ("side", "rule", "message", "said"),
    [
        (lora(arch="qwen2"), "pair-architecture", "'qwen2', this one is 'llama'", "model arch and LoRA arch mismatch"),
        (
            lora(("blk.7.attn_q.weight", 64, 64)), "pair-shapes", "changes blk.7.attn_q.weight, which",
            "LoRA tensor 'blk.7.attn_q.weight' does not exist in base model (hint: maybe wrong base model?)",
        ),
        (
            lora(("blk.0.attn_q.weight", 96, 96)), "pair-shapes", "of 96 × 96, that of this model is 64 × 64",
            "tensor 'blk.0.attn_q.weight' has incorrect shape (hint: maybe wrong base model?)",
        ),
        (
            lora().drop_tensor("blk.0.attn_q.weight.lora_b"), "pair-load", "is missing one component",
            "LoRA tensor pair for 'blk.0.attn_q.weight' is missing one component",
        ),
    ],
)  # fmt: skip
def test_an_adapter_of_another_base_is_refused(side, rule, message, said):
    (found,) = fit(side)
    assert (found.rule, found.outcome) == (rule, "refused")
    assert message in found.message
    assert found.said == (APPLY + said,)


def test_a_control_vector_that_llama_cpp_skips():
    (found,) = fit(control_vector(layers=(0, 1)))
    assert (found.rule, found.outcome) == ("pair-load", "ignored")
    assert found.said[0] == "invalid (zero) direction tensor layer index in side.gguf"


def test_a_draft_with_another_kind_of_vocabulary():
    other = llama().replace("tokenizer.ggml.model", "gpt2").kv("tokenizer.ggml.merges", ["a b"])
    (found,) = fit(other)
    assert (found.rule, found.outcome) == ("pair-vocabulary", "ignored")
    assert found.said[0] == "the target and draft vocabs are not compatible"


def test_an_imatrix_of_another_width():
    (found,) = fit(imatrix(measured(width=96)))
    assert (found.rule, found.outcome) == ("pair-imatrix", "refused")
    assert found.said == ("imatrix size 96 is different from tensor size 64 for blk.0.attn_q.weight",)


def test_an_imatrix_of_fewer_layers_and_of_none():
    assert kinds(fit(imatrix(measured(layers=2)))) == [("pair-imatrix", "harm")]
    assert kinds(fit(imatrix({"blk.9.attn_q.weight": 64}))) == [("pair-imatrix", "ignored")]


@pytest.mark.parametrize("as_", BESIDE)
def test_the_wrong_role(as_):
    """Whatever it is given as, a file of another role is named for what it is."""
    sides = {"control-vector": control_vector(), "imatrix": imatrix(measured()), "draft": llama(), "adapter": lora()}
    for own, side in sides.items():
        found = fit(side, given_as=as_)
        if own == as_:
            assert not found
        else:
            assert kinds(found) == [("pair-role", "ignored" if as_ == "control-vector" else "refused")]
            assert found[0].message.startswith("it is no ")
            assert found[0].hint


def test_what_stands_beside_no_model():
    assert kinds(fit(GGUF("flux").tensor("double_blocks.0.img_attn.qkv.weight"))) == [("pair-role", "refused")]


def test_a_role_that_is_none():
    with pytest.raises(UsageError, match="mmprj"):
        fit(control_vector(), given_as="mmprj")


def test_every_misfit_has_a_rule_that_reports_it():
    """What a module of this room calls a rule is one of lint."""
    room = Path(pairs.__file__).parent
    named = {name for path in room.glob("*.py") for name in re.findall(r'"((?:pair|draft)-[a-z-]+)"', path.read_text())}
    rules = {r.id for r in catalogue()}
    assert {n for n in named if n.startswith("pair-")} <= rules
    assert {r.id for r in catalogue() if r.family == "pair"} <= named
