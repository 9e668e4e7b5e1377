"""`--emit ollama`: what Ollama's own parser and templates make of it (`tests/data/ollama.json.gz`)."""

from __future__ import annotations

import gzip
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gguftool.chat.engine.request import Asked
from gguftool.chat.engine.server import Server
from gguftool.chat.turns import CONVERSATIONS, turns
from gguftool.errors import UsageError
from gguftool.run.emit import emit
from gguftool.run.emit.ollama import said
from tests.build import GGUF
from tests.chat.test_engine import corpus
from tests.run.emitted import filled, planned

TRUTH: dict[str, Any] = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "data" / "ollama.json.gz").read_bytes())
)


@pytest.mark.parametrize("name", TRUTH["templates"])
def test_the_prompt_is_the_same_in_ollama(name: str) -> None:
    """What Ollama makes of our Go template is what the Jinja template makes, to the character."""
    source = (corpus() / name).read_text(encoding="utf-8")
    made = Server(source, None, bos="<BOS>", eos="<EOS>", add_bos=True, add_eos=False, now=datetime(2026, 11, 30))

    def render(messages: Any, opened: bool) -> str | None:
        result = made.prompt(Asked(tuple(messages), open=opened, prefill=False))
        return None if result.kind else result.text

    found = turns(render, "<EOS>")
    assert found is not None
    assert found.go() == TRUTH["templates"][name]["go"]
    for talk, prompt in zip(CONVERSATIONS, TRUTH["templates"][name]["prompts"], strict=True):
        wanted = render(talk, True)
        assert prompt == wanted or (wanted is None and talk[0]["role"] == "system")


def test_most_templates_have_a_form() -> None:
    assert len(TRUTH["templates"]) == 63
    assert len(TRUTH["none"]) == 8


def test_a_text_is_read_back_or_refused() -> None:
    """Ollama's parser reads what was meant, and nothing else; a text of which it does not is not written."""
    both = [False, False]
    for row in TRUTH["texts"]:
        wanted = [["model", "x"], ["stop", row["text"]], ["num_ctx", "7"]]
        told = said(row["text"])
        assert (told is not None) is (row["read"] == wanted), row
        both[told is not None] = True
    assert all(both)


def modelfile(text: str) -> list[list[str]]:
    """The commands of a file whose texts hold no three quotes."""
    return [
        [a.lower(), b if b is not None else c]
        for a, b, c in (
            (m[1], m[2], m[3])
            for m in re.finditer(r'^([A-Z]+(?: [a-z_]+)?) (?:"""(.*?)"""|([^"\n]*))$', text, re.M | re.S)
        )
    ]


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_what_was_asked_has_a_form_or_is_told_as_lost(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    place = filled(tmp_path)
    (place / "t.jinja").write_text(CHATML)
    result = cli(
        "launch", place / "m.gguf", "--ctx", 512, "--parallel", 2, "--cache-type", "q8_0", "--ubatch", 256,
        "--threads", 3,
        "--lora", place / "mm.gguf", "--chat-template-file", place / "t.jinja", "--metrics", "--load-mode", "none",
        "--emit", "ollama", "--force", "--", "--temp", "0.5", "--top-k", "7", "--grammar", "x",
    )  # fmt: skip
    assert result.code == 0, result.err
    found = modelfile(result.out)
    assert ["from", str(place / "m.gguf")] in found
    assert ["adapter", str(place / "mm.gguf")] in found
    for key, value in {
        "num_ctx": "256", "num_batch": "256", "num_thread": "3", "use_mmap": "false", "temperature": "0.5",
        "top_k": "7",
    }.items():  # fmt: skip
        assert [f"parameter {key}", value] in found
    assert any(a == "template" and "<|im_start|>" in b for a, b in found)
    head = [line for line in result.out.splitlines() if line.startswith("# ")]
    assert any("ollama create m -f Modelfile" in line for line in head)
    assert any("OLLAMA_KV_CACHE_TYPE=q8_0 OLLAMA_FLASH_ATTENTION=1 OLLAMA_NUM_PARALLEL=2" in line for line in head)
    assert {"# Lost: --metrics", "# Lost: --grammar x"} <= set(head)
    assert "Lost: --ctx" not in result.out


def test_stops_are_the_tokens_that_end_a_generation(cli, smollm2: Path) -> None:  # type: ignore[no-untyped-def]
    result = cli("launch", smollm2, "--ctx", 512, "--emit", "ollama", "--force")
    stops = [b for a, b in modelfile(result.out) if a == "parameter stop"]
    assert stops == ["<|endoftext|>", "<|im_end|>", "<reponame>"], "as llama.cpp prints its EOG tokens of this file"


def test_sampling_that_the_file_records(tmp_path: Path) -> None:
    g = GGUF().kv("general.architecture", "llama").kv("llama.context_length", 4096).kv("llama.block_count", 1)
    g = g.kv("llama.embedding_length", 64).kv("llama.attention.head_count", 1).kv("general.sampling.temp", 0.6, "f32")
    filled(tmp_path)
    (tmp_path / "m.gguf").write_bytes(g.tensor("token_embd.weight", (64, 32), "f32").bytes())
    assert ["parameter temperature", "0.6"] in modelfile(emit("ollama", planned(tmp_path)))


def test_a_name_that_cannot_be_said(tmp_path: Path) -> None:
    folder = tmp_path / "a\x07b"
    folder.mkdir()
    filled(folder)
    with pytest.raises(UsageError, match="Modelfile"):
        emit("ollama", planned(folder))
    quoted = tmp_path / 'x """\n y'
    quoted.mkdir()
    filled(quoted)
    with pytest.raises(UsageError, match="Modelfile"):
        emit("ollama", planned(quoted))


def test_shards_are_merged_first(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for no in range(2):
        g = GGUF("llama") if not no else GGUF()
        if not no:
            g.kv("llama.context_length", 512).kv("llama.embedding_length", 32).kv("llama.block_count", 1)
            g.kv("llama.attention.head_count", 1)
        g.shard(no, 2, tensors=2).tensor(f"blk.0.w{no}.weight", (32, 32)).write(
            tmp_path / f"m-{no + 1:05}-of-00002.gguf"
        )
    result = cli("launch", tmp_path / "m-00001-of-00002.gguf", "--ctx", 512, "--emit", "ollama", "--force")
    assert result.code == 0, result.err
    first = next(line for line in result.out.splitlines() if line.startswith("# First: "))
    assert first.endswith(f"gguftool merge {tmp_path}/m-00001-of-00002.gguf -o {tmp_path}/m.gguf")
    assert ["from", f"{tmp_path}/m.gguf"] in modelfile(result.out)
