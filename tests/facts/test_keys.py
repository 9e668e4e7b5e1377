"""One answer to who reads a key: the rows against what was measured, and every room against the rows."""

from __future__ import annotations

import gzip
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gguftool.edit.schema import key_types, read_by
from gguftool.errors import UsageError
from gguftool.facts.data import INSTEAD, load, newest
from gguftool.facts.keys import (
    covered,
    every_arch,
    fits,
    named_keys,
    read_keys,
    read_suffixes,
    readers,
    reading,
    spelled,
    whole_readers,
)  # fmt: skip
from gguftool.facts.reads import reads
from gguftool.lint.explain import explain
from gguftool.lint.run import lint
from gguftool.model import from_source
from gguftool.source import Memory
from tests.build import GGUF

PROBED = Path(__file__).parents[1] / "data" / "facts" / "probed.json.gz"
MERGES = "tokenizer.ggml.merges"
"""Read by the vocabulary loader, of the tokenizers that have merges."""
READ_MEANWHILE = {
    ("qwen3next", "full_attention_interval"),
    ("qwen35moe", "full_attention_interval"),
    ("minimax-01", "full_attention_interval"),
    ("qwen4exp", "full_attention_interval"),
    ("exaone4", "rope.freq_base_swa"),
    ("exaone4", "attention.sliding_window_pattern"),
}
"""Keys the probe could not reach: its headers had the key that comes first, or too few layers."""
WITHOUT_HEADS = frozenset({"attention.key_length", "attention.value_length", "rope.dimension_count"})
"""Read of every model with attention heads; the recurrent headers that were probed have none."""
UNLESS = frozenset({"rope.scale_linear", "classifier.output_labels"})
"""Read where another key is absent, or where it is an array: the probe had neither."""


@cache
def probed() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(PROBED.read_bytes()))
    return found


def test_the_keys_of_all_architectures_are_those_of_their_rows() -> None:
    path = Path(__file__).parents[2] / "gguftool" / "facts" / "data" / "read_by.json"
    sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "facts"))
    from read_by import text

    assert path.read_text(encoding="utf-8") == text(), "python scripts/facts/read_by.py writes it anew"
    archs = [a for a in load("load_maps.json")["arch"] if reads(a)]
    suffixes = {key.removeprefix(f"{a}.") for a in archs for key in read_keys(a)}
    for suffix in (*suffixes, "nonsense", ""):
        said = sorted(a for a in archs if f"{a}.{suffix}" in read_keys(a))
        assert readers(suffix) == (("*",) if len(said) == len(archs) else tuple(said)), suffix
        assert whole_readers(suffix) == tuple(sorted(a for a in archs if f"={suffix}" in reads(a))), suffix


def test_one_key_is_read_as_the_rows_of_the_architecture_say() -> None:
    strange = ("nonsense", 'quote"d', "\udcff", "a\nb", "")
    for arch in (*every_arch(), "clip", "nonsense", "\udcff", ""):
        under = [f"{arch}.{key}" for key in (*read_suffixes(), *strange)]
        names = {*read_keys(arch), *under, *(key.removeprefix("=") for key in read_suffixes()), *strange}
        alone = {key: reading(key, arch) for key in names}
        # For other builds than the newest there is no table made of all rows, so they are walked.
        token = INSTEAD.set(newest)
        try:
            assert {key: reading(key, arch) for key in names} == alone, arch
        finally:
            INSTEAD.reset(token)


def test_the_rows_say_what_the_library_was_measured_to_demand() -> None:
    every = {k[3:]: kind for k, kind in probed()["every_arch"].items() if k.startswith("%s.")}
    count = 0
    for arch, keys in probed()["arch"].items():
        measured = every | {k[3:]: kind for k, kind in keys.items() if k.startswith("%s.")}
        rows = {k.removeprefix(f"{arch}."): r for k, r in read_keys(arch).items() if k.startswith(f"{arch}.")}
        for suffix, kind in measured.items():
            assert rows[suffix].kind == " or ".join(dict.fromkeys(kind.split(" or "))), (arch, suffix)
            count += 1
        more = {(arch, k) for k in set(rows) - set(measured) - WITHOUT_HEADS - UNLESS - {"vocab_size"}}
        assert more <= READ_MEANWHILE, more
        # What the probe did not reach is read under a condition that says why.
        assert all(rows[k].condition for _, k in more)
    assert count > 4400


def test_whole_keys_have_the_types_that_were_measured() -> None:
    for key, kind in probed()["every_arch"].items():
        if not key.startswith("%s."):
            assert read_keys("llama")[key].kind == kind, key
    for keys in probed()["arch"].values():
        for key in keys:
            assert key.startswith("%s.") or key == MERGES or reading(key, "apertus") is not None, key


def test_keys_that_may_not_be_deleted() -> None:
    for arch, required in probed()["required"].items():
        if not reads(arch):
            continue
        always = {k for k, r in reads(arch).items() if r.required == "always"}
        # Read by the loading function of classes that had no header to probe.
        late = {"target_layers", "expert_feed_forward_length", "interleave_moe_layer_step", "features_length"}
        late |= {f"{part}.{name}" for part in ("posnet", "convnext") for name in ("embedding_length", "block_count")}
        assert set(required) <= always, arch
        assert always - set(required) <= late | {"embedding_length", "block_count", "context_length"}, arch


def test_conditions_are_told() -> None:
    assert reads("qwen3next")["full_attention_interval"].condition == "attention.recurrent_layers is absent"
    assert reads("exaone4")["rope.freq_base_swa"].condition == "block_count == 64"
    assert reads("llama")["rope.scale_linear"].condition == "rope.scaling.factor is absent"
    assert reads("gemma3")["rope.freq_base_swa"].condition != ""
    assert reads("gemma2")["attention.layer_norm_rms_epsilon"].condition == ""
    # decided by the name of the architecture alone
    assert "leading_dense_block_count" not in reads("ernie4_5")
    assert "leading_dense_block_count" not in reads("paddleocr")
    assert reads("ernie4_5-moe")["interleave_moe_layer_step"].required == "always"
    assert reads("eagle3")["target_hidden_size"].required == "always"
    assert reads("dflash")["target_layers"].required == "always"
    assert reads("dflash")["attention.q_lora_rank"].required == "sometimes"


def suffixes() -> list[str]:
    return sorted({k for a in every_arch() for k in reads(a) if not k.startswith("=")})


@pytest.mark.parametrize("arch", every_arch())
def test_every_room_gives_the_same_answer(arch: str) -> None:
    g = GGUF(arch)
    for suffix in suffixes():
        anybody = next(a for a in every_arch() if suffix in reads(a))
        g.kv(f"{arch}.{suffix}", [0] if reads(anybody)[suffix].kind == "arr" else 0)
    unread = lint(from_source(Memory(g.bytes(), "m.gguf"), strict=False), select=["key-unread"], load=False)
    dead = {key for f in unread.findings for key in f.data["keys"]}
    for suffix in suffixes():
        key = f"{arch}.{suffix}"
        mine = suffix in reads(arch) or suffix == "vocab_size"
        assert (key not in dead) == mine, key
        assert explain(key).llama_cpp.startswith(f"llama.cpp, for {arch}") == mine, key
        assert (read_by(key, arch) == "llama.cpp") == mine, key
        assert (f"{arch}.{suffix}" in read_keys(arch)) == mine, key
        if suffix in reads(arch):
            assert key_types(key, arch) == spelled(reads(arch)[suffix]), key
            assert explain(key).condition == reads(arch)[suffix].condition, key
            assert (explain(key).required in (arch, "every architecture")) == (
                reads(arch)[suffix].required == "always"
            ), key


def test_every_name_llama_cpp_has_is_explained() -> None:
    """The library's table, the projector's, adapters, drafts, classifiers, importance matrices, splits."""
    assert len([k for k in named_keys() if k.startswith("clip.")]) >= 72
    for key in sorted(named_keys()):
        e = explain(key.replace("{name}", "x"))
        assert e.meaning, key
        assert e.type, key
        if reading(key, "") is not None:
            assert e.llama_cpp, key
    for key in ("eagle3.target_layers", "eagle3.target_hidden_size", "eagle3.norm_before_residual",
                "eagle3.norm_before_fc", "dflash.block_size", "graniteswitch.adapters.count",
                "graniteswitch.adapters.lora_rank", "clef.decision.head_count", "bert.classifier.output_labels",
                "general.tensor_extra.name", "general.tensor_extra.prec_a4", "clip.use_gelu",
                "clip.vision.projector_type", "clip.audio.attention.head_count", "clip.minicpmv_version",
                "clip.gen.audio.projector_type", "dflash.has_confidence_head", "llama.decision.type",
                "adapter.lora.alpha", "split.count", "imatrix.datasets"):  # fmt: skip
        assert explain(key).llama_cpp, key


def test_not_known_and_not_read_are_two_answers() -> None:
    with pytest.raises(UsageError, match=r"no program of llama.cpp b\d+ reads a key 'clip.vision.patch_sise'"):
        explain("clip.vision.patch_sise")
    with pytest.raises(UsageError, match=r"no program of llama\.cpp b"):
        explain("qwen2.contextlength")
    for key in ("foo.bar", "sd.unet.width", "contxt_length"):
        with pytest.raises(UsageError, match="is not a key that gguftool knows"):
            explain(key)
    assert covered("clip.x")
    assert covered("llama.x")
    assert covered("general.x")
    assert not covered("foo.bar")
    # a name that llama.cpp has and nobody reads: said outright, the list of readers is complete
    assert explain("tokenizer.ggml.cls_token_id").llama_cpp == ""
    assert explain("llama.tensor_data_layout").llama_cpp == ""


def test_types_of_projector_keys(tmp_path: Path, cli: Any) -> None:
    assert key_types("clip.projector_type", "clip") == ("str",)
    assert key_types("clip.vision.image_mean", "clip") == ("[f32]",)
    assert key_types("clip.vision.wa_layer_indexes", "clip")[0] == "[i32]"
    path = tmp_path / "mmproj.gguf"
    GGUF("clip").kv("general.type", "mmproj").kv("clip.projector_type", "ldp").tensor("v.x", (32,)).write(path)
    done = cli("fix", path, "--set", "clip.projector_type=mlp", "--yes")
    assert done.code == 0, done.err
    with open(path, "rb") as file:
        assert b"\x03\x00\x00\x00\x00\x00\x00\x00mlp" in file.read()


def test_every_key_that_the_loader_of_projectors_reads_is_known_with_its_type() -> None:
    rows = load("projectors.json")["functions"]["load_hparams"][1]
    read = {(kind, key) for kind, expression in _key_rows(rows) for key in _spelled(expression)}
    assert len(read) > 60
    for kind, key in sorted(read):
        wanted = f"[{kind[4:]}]" if kind.startswith("arr ") else kind
        assert wanted in key_types(key, "clip"), (key, wanted, key_types(key, "clip"))
        assert "multimodal loader" in explain(key).llama_cpp, key


def _key_rows(rows: list[Any]) -> list[tuple[str, str]]:
    out: list[tuple[str, str]] = []
    for row in rows:
        if isinstance(row, list) and row[:1] == ["key"]:
            out.append((row[1], row[2]))
        elif isinstance(row, list):
            out += _key_rows(row)
    return out


def _spelled(expression: str) -> list[str]:
    text = re.search(r"'([^']*)'", expression)
    assert text is not None, expression
    return [text[1].replace("%s", modality) for modality in ("vision", "audio")] if "%s" in text[1] else [text[1]]


def test_a_conditional_key_of_a_wrong_type_is_an_error_only_where_it_is_reached() -> None:
    def findings(g: GGUF) -> list[str]:
        report = lint(from_source(Memory(g.bytes(), "m.gguf"), strict=False), select=["key-type-wrong"], load=False)
        return [f.where for f in report.findings]

    def base() -> GGUF:
        g = GGUF("qwen3next")
        for key, value in (("context_length", 64), ("embedding_length", 32), ("block_count", 2)):
            g.kv(f"qwen3next.{key}", value)
        return g.kv("qwen3next.full_attention_interval", "4", "str")

    assert findings(base()) == ["field:qwen3next.full_attention_interval"]
    assert findings(base().kv("qwen3next.attention.recurrent_layers", [1, 0], "[u32]")) == []


def test_arrays_fit_as_llama_cpp_takes_them() -> None:
    g = GGUF("llama").kv("a", [1], "[i32]").kv("b", [1.0], "[f32]").kv("c", [True], "[bool]").kv("d", 1, "u32")
    f = from_source(Memory(g.bytes(), "m"), strict=False).fields
    heads, labels = reads("llama")["attention.head_count"], reads("llama")["classifier.output_labels"]
    assert [fits(f[k], heads) for k in "abcd"] == [True, False, True, True]
    assert [fits(f[k], labels) for k in "abcd"] == [False] * 4
    assert readers("rope.freq_scale") == ()
    assert readers("context_length") == ("*",)


def test_the_words_for_a_key_name_who_reads_it() -> None:
    """Keys of a projector are no keys of an architecture, and those of one program not of several."""
    assert "projector" in explain("clip.use_gelu").meaning
    assert "multimodal loader" in explain("clip.use_gelu").llama_cpp
    assert "program of llama.cpp reads it" in explain("dflash.has_confidence_head").meaning
    assert "architectures of llama.cpp read" in explain("dense_2_feat_in").meaning


def test_what_only_the_loader_of_projectors_reads_is_read_in_projectors() -> None:
    # `clip.cpp` prints general.description of the file given with --mmproj; no loader of models looks at it (b11434).
    assert read_by("general.description", "llama") == "-"
    assert read_by("general.description", "clip") == "llama.cpp"


def test_room_for_edits_is_ours_under_each_of_its_names() -> None:
    for key in ("gguftool.pad", "gguftool.pad.1"):
        assert read_by(key, "llama") == "gguftool"
        assert "Room that gguftool reserved" in explain(key).meaning
