"""Reading a Hugging Face folder, and comparing real models with what their configuration says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gguftool.errors import MissingFile, Unreadable, UsageError
from gguftool.lint.against import LARGEST, from_files, read_folder
from gguftool.lint.rule import Context, Severity
from gguftool.lint.run import lint
from gguftool.model import open_model
from tests.lint.samples import report_of
from tests.lint.samples_source import CONFIG, folder
from tests.lint.samples_tokenizer import CHATML, TEMPLATE, bpe

# What the published models' files say of these two.
SMOLLM2 = {
    "config.json": {
        "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_size": 576,
        "intermediate_size": 1536, "max_position_embeddings": 8192, "model_type": "llama", "num_attention_heads": 9,
        "num_hidden_layers": 30, "num_key_value_heads": 3, "rms_norm_eps": 1e-05, "rope_scaling": None,
        "rope_theta": 100000, "tie_word_embeddings": True, "vocab_size": 49152,
    },
    "generation_config.json": {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2},
    "tokenizer_config.json": {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "unk_token": "<|endoftext|>"},
}  # fmt: skip
GEMMA3 = {
    "config.json": {
        "architectures": ["Gemma3ForCausalLM"], "attn_logit_softcapping": None, "bos_token_id": 2,
        "eos_token_id": [1, 106], "final_logit_softcapping": None, "head_dim": 256, "hidden_size": 640,
        "intermediate_size": 2048, "max_position_embeddings": 32768, "model_type": "gemma3_text",
        "num_attention_heads": 4, "num_hidden_layers": 18, "num_key_value_heads": 1, "rms_norm_eps": 1e-06,
        "rope_local_base_freq": 10000.0, "rope_scaling": None, "rope_theta": 1000000.0, "sliding_window": 512,
        "use_bidirectional_attention": False, "vocab_size": 262144,
    },
    "tokenizer_config.json": {
        "add_bos_token": True, "add_eos_token": False, "bos_token": "<bos>", "eos_token": "<eos>",
    },
}  # fmt: skip


def write(path: Path, files: dict[str, Any]) -> Path:
    path.mkdir(exist_ok=True)
    for name, value in files.items():
        (path / name).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def changed(files: dict[str, Any], **config: object) -> dict[str, Any]:
    return {**files, "config.json": {**files["config.json"], **config}}


@pytest.mark.parametrize(("which", "files"), [("smollm2", SMOLLM2), ("gemma3", GEMMA3)])
def test_real_models_agree_with_their_configuration(
    which: str, files: dict[str, Any], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    context = Context(against=read_folder(write(tmp_path / "hf", files)))
    with open_model(request.getfixturevalue(which)) as model:
        report = lint(model, context, select=("source",), load=False)
    assert report.findings == ()
    assert report.not_evaluated == ()


def test_a_real_model_against_another_one(smollm2: Path, tmp_path: Path) -> None:
    context = Context(against=read_folder(write(tmp_path, GEMMA3)))
    with open_model(smollm2) as model:
        report = lint(model, context, select=("source",), load=False)
    assert "source-other-model" in {f.rule for f in report.findings}
    # Nothing is drawn from a folder that is not the model's.
    skipped = {n.rule for n in report.not_evaluated}
    assert {"source-context-length", "source-rope-base", "source-sliding-window", "source-constants"} <= skipped


def test_fix_makes_the_finding_go_away(smollm2_copy: Path, tmp_path: Path, cli) -> None:  # type: ignore[no-untyped-def]
    hf = write(tmp_path / "hf", changed(SMOLLM2, rope_theta=273000.0))
    result = cli("lint", "--against", hf, "--select", "source", "--format", "json", smollm2_copy)
    found = result.json["files"][0]["findings"]
    assert [(f["rule"], f["severity"]) for f in found] == [("source-rope-base", "error")]
    words = found[0]["fix"]["command"].split()
    assert words[:2] == ["gguftool", "fix"]
    assert cli(*words[1:]).code == 0
    assert cli("lint", "--against", hf, "--select", "source", smollm2_copy).code == 0
    with open_model(smollm2_copy) as model:
        assert model["llama.rope.freq_base"] == 273000.0


def test_a_folder_or_its_config_file(tmp_path: Path) -> None:
    write(tmp_path, {"config.json": CONFIG, "chat_template.jinja": "äöü"})
    assert read_folder(tmp_path).jinja == read_folder(tmp_path / "config.json").jinja == "äöü"


def test_missing_and_broken_folders(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="no such folder"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(MissingFile, match=r"no config\.json"):
        read_folder(tmp_path)
    for text in ("{", "[1]", "[" * 100_000, "\xff"):
        (tmp_path / "config.json").write_text(text, encoding="latin-1")
        with pytest.raises(UsageError, match=r"config\.json is n"):
            read_folder(tmp_path)
    with pytest.raises(UsageError, match="larger than"):
        from_files("x", {"config.json": b" " * (LARGEST + 1)})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    write(tmp_path, {"config.json": CONFIG})
    (tmp_path / "config.json").chmod(0)
    with pytest.raises(Unreadable):
        read_folder(tmp_path)


def test_a_broken_side_file_is_not_judged() -> None:
    report = report_of(bpe(), context=Context(against=folder(tokenizer_config=b"{")), select=("source",))
    assert [(n.rule, n.why[:37]) for n in report.not_evaluated if "JSON" in n.why] == [
        ("source-special-tokens", "tokenizer_config.json is not JSON: Ex"),
        ("source-add-bos", "tokenizer_config.json is not JSON: Ex"),
        ("source-chat-template", "tokenizer_config.json is not JSON: Ex"),
    ]


@pytest.mark.parametrize(
    ("config", "theta"),
    [
        ({"rope_theta": 5}, 5.0),
        ({"rotary_emb_base": 6}, 6.0),
        ({"rope_parameters": {"rope_theta": 7.0, "rope_type": "default"}}, 7.0),
        ({"rope_parameters": {"full_attention": {"rope_theta": 8.0}, "sliding_attention": {"rope_theta": 1.0}}}, 8.0),
        ({"text_config": {"rope_theta": 9}, "rope_theta": 1}, 9.0),
        ({"thinker_config": {"text_config": {"rope_theta": 10}}}, 10.0),
        ({"llm_config": {"rope_theta": 11}}, 11.0),
        ({"rope_theta": True}, None),
        ({"rope_theta": "10000"}, None),
        ({}, None),
    ],
)
def test_where_rope_theta_stands(config: dict[str, Any], theta: float | None) -> None:
    assert from_files("x", {"config.json": json.dumps(config).encode()}).rope_theta == theta


def test_eos_ids_and_special_texts() -> None:
    hf = folder({"eos_token_id": 0}, special_tokens_map={"bos_token": {"content": "<b>"}, "pad_token": "<p>"})
    assert hf.eos_ids == (0,)
    assert (hf.special_text("bos"), hf.special_text("pad"), hf.special_text("unk")) == ("<b>", "<p>", None)
    assert folder(generation_config={"eos_token_id": [1, 2, True, -1, "x"]}).eos_ids == (1, 2)


def test_chat_template_is_the_one_in_use() -> None:
    # as transformers 5.24 finds it (tests/chat/test_infolder.py)
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    assert folder(tokenizer_config={"chat_template": named}).chat_template == "d"
    assert folder(tokenizer_config={"chat_template": named}, jinja="j").chat_template == "j"
    assert folder(tokenizer_config={}, jinja="j").chat_template == "j"
    assert folder(chat_template={"chat_template": "k"}).chat_template == "k"
    both = {"tokenizer_config": {"chat_template": "own"}, "chat_template": {"chat_template": "k"}}
    assert folder(**both).chat_template == "own"
    assert folder(**both, preprocessor_config={}).chat_template == "k"
    assert folder().chat_template is None


def test_the_other_of_two_templates_is_put_right() -> None:
    """C6: the converter took the one of tokenizer_config.json, the model was trained with the other."""
    old = CHATML.replace("assistant", "model")
    context = Context(against=folder(tokenizer_config={"chat_template": old}, jinja=CHATML))
    report = report_of(bpe(template=old), context=context, select=("source-chat-template",))
    (finding,) = report.findings
    assert (finding.severity, finding.data["used"]) == (Severity.WARNING, "chat_template.jinja")
    assert finding.fix is not None
    assert finding.fix.safe
    assert [(op.key, op.value) for op in finding.fix.operations] == [(TEMPLATE, CHATML)]  # type: ignore[union-attr]
    # one that somebody chose is left alone
    chosen = report_of(bpe(template=CHATML + "x"), context=context, select=("source-chat-template",)).findings[0]
    assert chosen.fix is not None
    assert not chosen.fix.safe
    assert not report_of(bpe(template=CHATML), context=context, select=("source-chat-template",)).findings


def test_template_fix_takes_the_source_template() -> None:
    context = Context(against=folder(tokenizer_config={"chat_template": CHATML}))
    report = report_of(bpe(template=None), context=context, select=("source-chat-template",))
    fix = report.findings[0].fix
    assert fix is not None
    assert [(op.key, op.value) for op in fix.operations] == [(TEMPLATE, CHATML)]  # type: ignore[union-attr]
