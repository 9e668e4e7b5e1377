"""What a publisher fills in and takes out: from the source's card and repository, and nothing is written over."""

from __future__ import annotations

from gguftool.edit.ops import Delete, Operation, Set, Strip, apply
from gguftool.edit.publish import Told, clean, fill
from gguftool.model import Model, from_source
from gguftool.model.called import no_name
from gguftool.model.card import read_card
from gguftool.model.draft import with_header
from gguftool.source import Memory
from tests.build import GGUF, llama
from tests.lint.samples import zeroed

CARD = read_card(
    "---\nlicense: other\nlicense_name: mine-1.0\nlicense_link: LICENSE\nbase_model:\n- Org/base-7b-v1.2\n- Org/Other\n"
    "pipeline_tag: text-generation\ntags: [gguf, chat, chat]\nlanguage: [en, no]\nquantized_by: them\n---\n"
)


def opened(g: GGUF) -> Model:
    return from_source(Memory(zeroed(g).bytes(), "m.gguf"))


def values(model: Model, ops: tuple[Operation, ...]) -> dict[str, object]:
    after = with_header(model, apply(ops, model.header))
    return {key: after.get(key) for key in after.fields if key not in model.fields}


def quantised() -> GGUF:
    return llama().retensor("token_embd.weight", type="q8_0", data=None)


def test_from_the_card() -> None:
    model = opened(quantised())
    assert values(model, fill(model, Told(CARD))) == {
        "general.license": "other", "general.license.name": "mine-1.0", "general.license.link": "LICENSE",
        "general.base_model.count": 2, "general.base_model.0.name": "Base 7b v1.2",
        "general.base_model.0.organization": "Org",
        "general.base_model.0.repo_url": "https://huggingface.co/Org/base-7b-v1.2",
        "general.base_model.1.name": "Other", "general.base_model.1.organization": "Org",
        "general.base_model.1.repo_url": "https://huggingface.co/Org/Other",
        "general.quantized_by": "them", "general.tags": ["chat", "text-generation"],
        "general.languages": ["en", "no"],
    }  # fmt: skip


def test_from_the_repository_and_what_is_said() -> None:
    model = opened(quantised().replace("general.name", "9217f5db79a29953eb74d5343926648285ec7e67"))
    told = Told(source="Qwen/Qwen2.5-7B-Instruct", quantized_by="me", repo="me/Foo-GGUF")
    ops = fill(model, told)
    found = values(model, ops)
    assert found["general.source.huggingface.repository"] == "Qwen/Qwen2.5-7B-Instruct"
    assert found["general.base_model.0.repo_url"] == "https://huggingface.co/Qwen/Qwen2.5-7B-Instruct"
    assert (found["general.quantized_by"], found["general.repo_url"]) == ("me", "https://huggingface.co/me/Foo-GGUF")
    assert Set("general.name", "Qwen2.5 7B Instruct", "str") in ops


def test_nothing_is_written_over_and_nothing_is_guessed() -> None:
    g = quantised().kv("general.license", "mit").kv("general.base_model.0.name", "Mine").kv("general.tags", ["x"])
    model = opened(g.kv("general.base_model.count", 1).replace("general.name", "A name"))
    found = values(model, fill(model, Told(CARD, repo="me/Foo-GGUF")))
    assert set(found) == {"general.quantized_by", "general.repo_url", "general.languages"}
    # The owner of a repository need not be who quantised; a tag from the kind of the file says nothing new.
    plain = opened(quantised())
    assert set(values(plain, fill(plain, Told(repo="me/Foo-GGUF")))) == {"general.repo_url"}
    assert fill(plain, Told()) == ()


def test_what_is_taken_out() -> None:
    g = llama().kv("gguftool.pad", "  ").kv("gguftool.pad.1", " ").kv("gguftool.version", "0.1")
    model = opened(g.kv("general.alignment", 32))
    assert clean(model) == (Strip(), Delete("general.alignment"))
    assert clean(model, own=True)[-1] == Delete("gguftool.version")
    assert clean(opened(llama())) == ()


def test_names() -> None:
    assert not any(map(no_name, ("Qwen3 8B", "Model T", "Finalist", "0xdeadbeef model", "SmolLM2 135M")))
    assert all(map(no_name, ("", "model", "Checkpoint 500", "./x", "abcdef0123456789abcd", "ggml-model", "N/A")))
