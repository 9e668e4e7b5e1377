"""The readers behind the timeline: every layout of the sources, and what is said where one is not known."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts" / "facts"))

from builds import kinds, names, options, required, timeline
from builds.trees import Unread

MONOLITH = """
static std::map<llm_arch, std::string> LLM_ARCH_NAMES = {
    { LLM_ARCH_LLAMA, "llama" }, { LLM_ARCH_MPT, "mpt" },  // { LLM_ARCH_GONE, "gone" },
};
static std::map<llm_kv, std::string> LLM_KV_NAMES = {
    { LLM_KV_CONTEXT_LENGTH, "%s.context_length" }, { LLM_KV_EPS, "%s.epsilon" }, { LLM_KV_GQA, "%s.gqa" },
};
static std::map<llm_arch, std::map<llm_tensor, std::string>> LLM_TENSOR_NAMES = {
    { LLM_ARCH_LLAMA, { { LLM_TENSOR_ATTN_Q, "blk.%d.attn_q" } } },
};
static void llm_load_hparams(llama_model_loader & ml) {
    GGUF_GET_KEY(ctx, hparams.n_ctx_train, gguf_get_val_u32, GGUF_TYPE_UINT32, true, kv(LLM_KV_CONTEXT_LENGTH));
    GGUF_GET_KEY(ctx, hparams.gqa, gguf_get_val_u32, GGUF_TYPE_UINT32, false, kv(LLM_KV_GQA));
    switch (model.arch) {
        case LLM_ARCH_LLAMA:
            {
                GGUF_GET_KEY(ctx, hparams.eps, gguf_get_val_f32, GGUF_TYPE_FLOAT32, true, kv(LLM_KV_EPS));
            } break;
    }
}
static void llm_load_vocab() {
    if (tokenizer_name == "llama") { } else if (tokenizer_name == "gpt2") { }
}
static void llm_load_tensors() {
    switch (model.arch) {
        case LLM_ARCH_LLAMA: { } break;
    }
}
"""
SPLIT = {
    "src/llama-arch.cpp": MONOLITH[: MONOLITH.index("static void llm_load_hparams")],
    "src/llama-model.cpp": """
static llama_model * llama_model_create(llm_arch arch, const llama_model_params & params) {
    switch (arch) {
        case LLM_ARCH_LLAMA:
            return new llama_model_llama(params);
        case LLM_ARCH_MPT:
            return new llama_model_mpt(params);
    }
}
void llama_model_base::load_hparams(llama_model_loader & ml) {
    ml.get_key(LLM_KV_CONTEXT_LENGTH, hparams.n_ctx_train);
    ml.get_key(LLM_KV_GQA, hparams.gqa, false);
}
""",
    "src/models/models.h": "struct llama_model_llama : public llama_model_base {}; "
    "struct llama_model_mpt : public llama_model_llama {};",
    "src/models/llama.cpp": """
void llama_model_llama::load_arch_hparams(llama_model_loader & ml) {
    ml.get_key(LLM_KV_EPS, hparams.eps);
    if (hparams.n_expert > 0) {
        ml.get_key(LLM_KV_GQA, hparams.gqa);
    }
}
""",
    "src/llama-vocab.cpp": """
    if (tokenizer_model == "llama") {}
    if (tokenizer_pre == "llama-bpe" || tokenizer_pre == "x\\"y") {}
""",
}
WORDS = "".join(f' else if (arg == "--word-{i}") {{ params.other = {i}; }}' for i in range(20))
COMPARED = {
    "common/common.h": "struct gpt_params {\n    int32_t n_ctx = 512;\n    float temp = 0.80f;\n};",
    "common/common.cpp": """
    if (arg == "-c" || arg == "--ctx-size") { params.n_ctx = std::stoi(argv[i]); }
    else if (arg == "-sm" || arg == "--split-mode") {
        std::string arg_next = argv[i];
        if (arg_next == "none") { params.split_mode = NONE; } else if (arg_next == "row") { params.split_mode = ROW; }
    }""" + WORDS,
}  # fmt: skip
CALLED = {
    "common/common.h": "struct common_params {\n    int32_t n_ctx = 0;\n    common_sampling sampling;\n};\n"
    "struct common_sampling {\n    float temp = 0.80f;\n};",
    "common/arg.cpp": """
    add_opt(common_arg({"-c", "--ctx-size"}, "N", "size",
        [](common_params & params, int value) { params.n_ctx = value; }));
    add_opt(common_arg({"--temp"}, "N", "heat",
        [](common_params & params, const std::string & value) { params.sampling.temp = std::stof(value); }));
    add_opt(common_arg({"-sm", "--split-mode"}, "{none,layer,row}", "how",
        [](common_params & params, const std::string & value) { params.split_mode = value; }));
    add_opt(common_arg({"--only-cli"}, "for another",
        [](common_params & params) { params.x = true; }).set_examples({LLAMA_EXAMPLE_CLI}));
    """ + "".join(f'add_opt(common_arg({{"--word-{i}"}}, "w", [](common_params & params) {{ }}));' for i in range(20)),
}  # fmt: skip


@dataclass
class Texts:
    """A tree of a few texts."""

    texts: dict[str, str]

    def read(self, path: str) -> str | None:
        return self.texts.get(path)

    def files(self, pattern: str) -> list[str]:
        return [path for path in self.texts if re.match(pattern, path)]


@pytest.mark.parametrize("texts", [{"llama.cpp": MONOLITH}, {"src/llama.cpp": MONOLITH}])
def test_one_file(texts: dict[str, str]) -> None:
    tree = Texts(texts)
    assert names.architectures(tree) == {"llama", "mpt"}
    assert names.loaded(tree) == {"llama"}
    assert names.keys(tree) == {"%s.context_length", "%s.epsilon", "%s.gqa"}
    assert names.tensor_names(tree) == {"blk.%d.attn_q"}
    assert names.tokenizer_models(tree) == {"llama", "gpt2"}
    assert names.pre_tokenizers(tree) == set()
    assert required.required_keys(tree) == {"%s.context_length", "llama.epsilon"}


def test_a_file_for_each_concern() -> None:
    tree = Texts(SPLIT)
    assert names.architectures(tree) == names.loaded(tree) == {"llama", "mpt"}
    assert names.pre_tokenizers(tree) == {"llama-bpe", 'x"y'}
    # mpt has no function of its own and takes its parent's; what is asked under a condition is not required.
    assert required.required_keys(tree) == {"%s.context_length", "llama.epsilon", "mpt.epsilon"}


def test_options_compared_and_called() -> None:
    old, new = Texts(COMPARED), Texts(CALLED)
    assert {"-c", "--ctx-size", "-sm", "--split-mode"} <= options.names(old)
    assert {"--split-mode none", "--split-mode row"} == options.values(old)
    assert "--ctx-size 512" in options.defaults(old)
    assert {"-c", "--ctx-size", "--temp"} <= options.names(new)
    assert "--only-cli" not in options.names(new)
    assert options.values(new) == {"--split-mode none", "--split-mode layer", "--split-mode row"}
    assert options.defaults(new) == {"--ctx-size 0", "--temp 0.80"}


@pytest.mark.parametrize("kind", sorted(set(kinds.KINDS) - {"projector", "template_engine"}))
def test_a_tree_without_it_is_an_error_not_an_end(kind: str) -> None:
    with pytest.raises(Unread):
        kinds.KINDS[kind].read(Texts({"src/llama-arch.cpp": "int main() { return 0; }"}))


def test_a_walk_keeps_what_came_what_went_and_what_was_not_read() -> None:
    seen = {
        10: {"a"}, 20: {"a", "b"}, 30: None, 40: {"b", "c"}, 50: {"a", "b", "c"},
    }  # fmt: skip

    def read(tree: int) -> set[str]:
        found = seen[tree]
        if found is None:
            raise Unread("written in another way")
        return found

    state = timeline.Walk()
    timeline.walk(kinds.Kind(read, ""), state, iter([(b, None, b) for b in seen]))
    assert state.rows == {
        "a": [[10, None, 40, 20], [50, 40, None, None]],
        "b": [[20, 10, None, None]],
        "c": [[40, 20, None, None]],
    }
    assert state.unread == [[30, 30, "written in another way"]]
    assert timeline.unpacked(timeline.packed(state.rows)) == state.rows
    between = {15: {"a"}, 35: {"b"}, 37: {"b", "c"}}
    read_too = timeline.narrow(kinds.Kind(between.__getitem__, ""), state, [15, 35, 37], lambda build: build)
    assert sorted(read_too) == [15, 35, 37]
    assert state.rows["a"][0] == [10, None, 35, 20]
    assert state.rows["b"][0][:2] == [20, 15]
    assert state.rows["c"][0][:2] == [37, 35]


def test_a_tree_without_a_number_lies_between_the_names_it_has_and_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: dict[str, list[timeline.Row]] = {
        "a": [[1046, None, None, None]],
        "b": [[2000, 1999, None, None]],
        "c": [[3000, 2990, None, None]],
        "d": [[1500, 1499, 2500, 2499]],
    }
    state = timeline.Walk(rows, 4000)
    monkeypatch.setitem(kinds.KINDS, "architecture", kinds.Kind(lambda tree: tree, ""))
    assert timeline.bracket({"a", "b", "d"}, {"architecture": state}) == (2000, 2499)
    assert timeline.bracket({"a", "b"}, {"architecture": state}) == (2000, 2999)
    assert timeline.bracket({"a", "b", "c"}, {"architecture": state}) == (2991, 4000)
