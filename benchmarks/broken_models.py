"""What the known text and the known words say of sound models and of broken ones: the table of docs/smoke.md.

``python benchmarks/broken_models.py --write`` makes each kind of damage in a copy of a real model, serves it, and
writes what `gguftool.run.known` measures and says into the table of docs/smoke.md; without ``--write`` it is printed.
With ``--only`` the other lines stay as they are. It needs the models of the tests (`tests/real_models.py`), a
llama-server or the library, and some minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
import gguftool
from gguftool.api.launch import plan_launch
from gguftool.run.known import BROKEN as BROKEN_WORD
from gguftool.run.known import Known
from gguftool.run.serve import prove, serving
from gguftool.run.wishes import Wishes
from tests.real_models import GEMMA3, SMOLLM2, ensure

Damage = Callable[[str], None]
GEMMA = (
    "{% for m in messages %}<start_of_turn>{{ m['role'] }}\n{{ m['content'] }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
LLAMA2 = "{% for m in messages %}[INST] {{ m['content'] }} [/INST]{% endfor %}"


def heads(count: int, kv: int, size: int) -> Damage:
    """Another split into heads, with the size of each that follows from it."""
    return keys(
        ARCH__attention__head_count=count,
        ARCH__attention__head_count_kv=kv,
        ARCH__rope__dimension_count=size,
    )


def keys(**values: object) -> Damage:
    """Set metadata; two underscores stand for a dot, ``A`` before a name for the architecture."""

    def act(path: str) -> None:
        with gguftool.open(path) as m:
            arch = m.architecture
        with gguftool.edit(path) as e:
            for name, value in values.items():
                e[name.replace("__", ".").replace("ARCH", arch)] = value

    return act


def region(path: str, name: str) -> tuple[int, int]:
    """Where the data of a tensor lie: first byte and length."""
    with gguftool.open(path) as m:
        t = m.tensors[name]
        return t.offset, int(t.nbytes or 0)


def overwrite(name: str, make: Callable[[bytes], bytes]) -> Damage:
    """Other data for a tensor."""

    def act(path: str) -> None:
        start, length = region(path, name)
        with open(path, "r+b") as file:
            file.seek(start)
            data = file.read(length)
            file.seek(start)
            file.write(make(data))

    return act


def swap(one: str, other: str) -> Damage:
    """The data of two tensors of one size, exchanged."""

    def act(path: str) -> None:
        (a, n), (b, m) = region(path, one), region(path, other)
        if n != m:
            raise ValueError(f"{one} and {other} are of different sizes")
        with open(path, "r+b") as file:
            file.seek(a)
            first = file.read(n)
            file.seek(b)
            second = file.read(n)
            for at, data in ((a, second), (b, first)):
                file.seek(at)
                file.write(data)

    return act


def zeros(data: bytes) -> bytes:
    """No data at all: a hole in a download."""
    return bytes(len(data))


def noise(data: bytes) -> bytes:
    """The same bytes in another order: scales are finite no more than by chance, so blocks of 20 bytes are moved."""
    blocks = np.frombuffer(data[: len(data) // 20 * 20], np.uint8).reshape(-1, 20)
    order = np.random.default_rng(1).permutation(len(blocks))
    return blocks[order].tobytes() + data[len(blocks) * 20 :]


def times(factor: float) -> Callable[[bytes], bytes]:
    """Numbers of 32 bits, multiplied."""
    return lambda data: (np.frombuffer(data, np.float32) * np.float32(factor)).tobytes()


def unpermuted(heads: int, size: int) -> Callable[[bytes], bytes]:
    """Rows of each head in the order of Hugging Face: what a converter without its permutation writes."""

    def make(data: bytes) -> bytes:
        rows = np.frombuffer(data, np.uint8).reshape(heads, size // 2, 2, -1)
        return rows.swapaxes(1, 2).tobytes()

    return make


def fewer_bits(path: str, bits: int) -> None:
    """Weights of all layers rounded to so many bits, within the type they have: poor, but sound."""
    with gguftool.open(path) as m:
        rows = [(n, t.type_name) for n, t in m.tensors.items() if n.startswith("blk.") and len(t.shape) > 1]
    for name, kind in rows:
        if kind in COARSE:
            overwrite(name, COARSE[kind](bits))(path)


def _coarse_q4_1(bits: int) -> Callable[[bytes], bytes]:
    top = (1 << bits) - 1
    table = np.array([round(round(q * top / 15) * 15 / top) for q in range(16)], np.uint8)
    both = table[np.arange(256) & 15] | table[np.arange(256) >> 4] << 4

    def make(data: bytes) -> bytes:
        blocks = np.frombuffer(data, np.uint8).reshape(-1, 20).copy()
        blocks[:, 4:] = both[blocks[:, 4:]]
        return blocks.tobytes()

    return make


def _coarse_q8_0(bits: int) -> Callable[[bytes], bytes]:
    step = 127 / ((1 << bits) - 1) * 2

    def make(data: bytes) -> bytes:
        blocks = np.frombuffer(data, np.uint8).reshape(-1, 34).copy()
        numbers = blocks[:, 2:].view(np.int8)
        half = 0.5 if bits < 8 else 0.0
        blocks[:, 2:] = np.clip((np.floor(numbers / step) + half) * step, -127, 127).astype(np.int8).view(np.uint8)
        return blocks.tobytes()

    return make


COARSE = {"Q4_1": _coarse_q4_1, "Q8_0": _coarse_q8_0}


def layers(what: Callable[[bytes], bytes], *numbers: int) -> Damage:
    """All matrices of some layers."""

    def act(path: str) -> None:
        with gguftool.open(path) as m:
            names = [n for n in m.tensors if n.startswith("blk.") and int(n.split(".")[1]) in numbers]
            names = [n for n in names if len(m.tensors[n].shape) > 1]
        for name in names:
            overwrite(name, what)(path)

    return act


def shifted(path: str) -> None:
    """The texts of all ordinary tokens one place on."""
    with gguftool.open(path) as m:
        tokens = list(m["tokenizer.ggml.tokens"])
    with gguftool.edit(path) as e:
        e["tokenizer.ggml.tokens"] = [*tokens[:300], tokens[-1], *tokens[300:-1]]


def foreign(path: str) -> None:
    """The texts of a vocabulary of another order."""
    with gguftool.open(path) as m:
        tokens = list(m["tokenizer.ggml.tokens"])
    body = tokens[300:]
    np.random.default_rng(2).shuffle(body)
    with gguftool.edit(path) as e:
        e["tokenizer.ggml.tokens"] = [*tokens[:300], *body]


def quantised(kind: str) -> Damage:
    """A healthy model, made smaller."""

    def act(path: str) -> None:
        command = [sys.executable, "-m", "gguftool", "-q", "quantize", path, path + ".q", kind, "--allow-requantize"]
        subprocess.run([*command, "--overwrite"], check=True, capture_output=True)
        os.replace(path + ".q", path)

    return act


SOUND: dict[str, Damage] = {
    "as downloaded": lambda path: None,
    **{kind: quantised(kind) for kind in ("Q8_0", "Q4_0", "Q3_K_M", "Q2_K")},
    "rounded to 3 bits": lambda path: fewer_bits(path, 3),
    "rounded to 2 bits": lambda path: fewer_bits(path, 2),
}
BROKEN: dict[str, Damage] = {
    "RMS epsilon 0.1": keys(ARCH__attention__layer_norm_rms_epsilon=0.1),
    "RMS epsilon 0.01": keys(ARCH__attention__layer_norm_rms_epsilon=0.01),
    "RoPE base 1": keys(ARCH__rope__freq_base=1.0),
    "RoPE base 500": keys(ARCH__rope__freq_base=500.0),
    "RoPE base 10000": keys(ARCH__rope__freq_base=10000.0),
    "RoPE scaled by 8": keys(ARCH__rope__scaling__type="linear", ARCH__rope__scaling__factor=8.0),
    "a matrix of zeros": overwrite("blk.3.ffn_down.weight", zeros),
    "a layer of zeros": layers(zeros, 3),
    "four layers of zeros": layers(zeros, 3, 4, 5, 6),
    "blocks of a layer in another order": layers(noise, 3),
    "blocks of four layers in another order": layers(noise, 3, 4, 5, 6),
    "output norm times 1000": overwrite("output_norm.weight", times(1000)),
    "scales of all norms lost": lambda path: norms(path),
    "token embeddings in another order": overwrite("token_embd.weight", noise),
    "gate and up swapped": lambda path: each_layer(path, "ffn_gate", "ffn_up"),
    "two layers swapped": swap("blk.2.ffn_down.weight", "blk.15.ffn_down.weight"),
    "token texts shifted by one": shifted,
    "token texts of another vocabulary": foreign,
}
MORE: dict[str, Damage] = {
    "RMS epsilon 0.03": keys(ARCH__attention__layer_norm_rms_epsilon=0.03),
    "RoPE base 100": keys(ARCH__rope__freq_base=100.0),
    "RoPE base 100000000": keys(ARCH__rope__freq_base=1e8),
    "RoPE scaled by 2": keys(ARCH__rope__scaling__type="linear", ARCH__rope__scaling__factor=2.0),
    "queries of two layers swapped": swap("blk.2.attn_q.weight", "blk.9.attn_q.weight"),
    "a matrix in another order": overwrite("blk.5.attn_output.weight", noise),
    "norms of two kinds swapped": lambda path: each_layer(path, "attn_norm", "ffn_norm"),
}
_BOTH = re.compile(r"perplexity [\d,]+ of a well-known text, \d+ of \d+ known")
ONLY_SMOL: dict[str, Damage] = {
    "18 heads for 9": heads(18, 6, 32),
    "3 heads for 9": heads(3, 1, 192),
    "RoPE over 32 numbers for 64": keys(ARCH__rope__dimension_count=32),
    "queries not permuted": lambda path: queries(path),
    "pre-tokenizer default": keys(tokenizer__ggml__pre="default"),
    "pre-tokenizer qwen2": keys(tokenizer__ggml__pre="qwen2"),
    "template of Llama 2": keys(tokenizer__chat_template=LLAMA2),
    "pre-tokenizer llama-bpe": keys(tokenizer__ggml__pre="llama-bpe"),
    "template of Gemma": keys(tokenizer__chat_template=GEMMA),
    "begin token added": keys(tokenizer__ggml__add_bos_token=True),
    "end token is a word": keys(tokenizer__ggml__eos_token_id=260),
}  # fmt: skip


SMOL, GEMMA3_270M = "SmolLM2-135M", "gemma-3-270m"
SEEN: dict[str, tuple[str, ...]] = {
    SMOL: (*SOUND, *BROKEN, "RMS epsilon 0.03", "RoPE base 100", "RoPE base 100000000"),
    GEMMA3_270M: (*SOUND, *tuple(BROKEN)[: tuple(BROKEN).index("a layer of zeros") + 1]),
}
"""Lines that were known when the limits were set; all others are held out."""
HEAD = (
    "| model | held out | text | words | list | far | own tokens lost | end inside | end of turn | verdict | why |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
)
PAGE = Path(__file__).resolve().parents[1] / "docs" / "smoke.md"
BEGIN, END = "<!-- sound and broken models: benchmarks/broken_models.py -->", "<!-- end -->"


def norms(path: str) -> None:
    """The scales of all norms are ones."""
    with gguftool.open(path) as m:
        names = [n for n, t in m.tensors.items() if n.startswith("blk.") and len(t.shape) == 1]
    for name in names:
        overwrite(name, lambda data: np.ones(len(data) // 4, np.float32).tobytes())(path)


def queries(path: str) -> None:
    """The queries of all 30 layers as Hugging Face has them."""
    for n in range(30):
        overwrite(f"blk.{n}.attn_q.weight", unpermuted(9, 64))(path)


def each_layer(path: str, one: str, other: str) -> None:
    """Two tensors of each layer, exchanged."""
    with gguftool.open(path) as m:
        names = [n for n in m.tensors if f".{one}.weight" in n]
    for name in names:
        swap(name, name.replace(one, other))(path)


def measured(path: str) -> tuple[Known, str]:
    """Serve a file and score it; the text is the greedy completion."""
    # One thread: on a busy machine two of them wait for each other.
    wishes = Wishes(ctx=1536, parallel=1, port=0, smoke=True, threads=1)
    plan = plan_launch(path, wishes, check=False)
    with tempfile.TemporaryDirectory() as folder, serving(plan, os.path.join(folder, "log")) as running:
        outcome = prove(running, plan, seconds=300, with_smoke=True)
        if outcome.smoke is None or outcome.smoke.known is None:
            smoke = outcome.smoke
            verdict = "refused" if smoke is None else "unjudged" if smoke.ok is None else BROKEN_WORD
            return Known(verdict, smoke.why if smoke else outcome.ended or "not ready"), smoke.text if smoke else ""
        return outcome.smoke.known, outcome.smoke.text


def row(name: str, known: Known) -> str:
    """One line of the table."""
    seen = {x.what: x.value for x in known.looks}
    chat = known.chat
    ends = "–" if chat is None else "none" if chat.ends is None else f"{chat.ends:.2f}"
    turned = chat is not None and chat.ok is False
    ends += " ✗" if turned else ""
    lost = seen.get("own tokens")
    cells = (
        held_out(name),
        _number(known.text_logprob),
        f"{known.hits} of {len(known.words)}" if known.words else "–",
        _number(seen.get("repeats")),
        _number(seen.get("far text"), "+"),
        "–" if lost is None else f"{lost:.0%}",
        "–" if (x := seen.get("ends inside")) is None else f"{x:.3f}",
        ends,
        f"**{known.verdict}**" if known.verdict == BROKEN_WORD else "**not its turns**" if turned else known.verdict,
        _short(known.why or (chat.why if chat else ""), 110),
    )
    return f"| {name} | " + " | ".join(cells) + " |"


def _number(value: float | None, sign: str = "") -> str:
    return "–" if value is None else f"{value:{sign}.2f}" if abs(value) < 1e6 else f"{value:.0e}"


def _short(text: str, most: int) -> str:
    said = " ".join(text.split()).replace("|", "¦").replace("`", "'")
    return "text and words" if _BOTH.match(said) else said[:most]


def held_out(name: str) -> str:
    """``yes`` for a line that no limit was set by: ``MODEL: DAMAGE``."""
    title, _, damage = name.partition(": ")
    return "" if damage in SEEN[title] else "yes"


def rows(page: str) -> dict[str, str]:
    """The lines that stand in the page, by name."""
    inside = page.partition(BEGIN)[2].partition(END)[0]
    return {line.split(" | ")[0].removeprefix("| "): line for line in inside.splitlines() if ": " in line}


def written(page: str, new: dict[str, str]) -> str:
    """The page with lines put in the place of those of the same name, in the order of `cases`."""
    start, _, rest = page.partition(BEGIN)
    found = rows(page) | new
    order = [name for name, *_ in cases("", "") if name in found]
    return "\n".join((start + BEGIN, *HEAD, *(found[name] for name in order), END)) + rest.partition(END)[2]


def cases(smol: str, gemma: str) -> Iterator[tuple[str, str, Damage]]:
    """Name, model and damage of each line."""
    for title, path, more in ((SMOL, smol, ONLY_SMOL), (GEMMA3_270M, gemma, {})):
        for name, damage in {**SOUND, **BROKEN, **MORE, **more}.items():
            yield f"{title}: {name}", path, damage


def main() -> None:
    """Print the table, a line as soon as it is there; write it into the page where that is asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="lines whose name this pattern finds")
    parser.add_argument("--write", action="store_true", help="put the lines into docs/smoke.md")
    asked = parser.parse_args()
    print(*HEAD, sep="\n")
    new: dict[str, str] = {}
    for name, path, damage in cases(str(ensure(SMOLLM2)), str(ensure(GEMMA3))):
        if not re.search(asked.only, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "model.gguf")
            shutil.copyfile(path, copy)
            try:
                damage(copy)
                known, says = measured(copy)
            except (gguftool.GgufToolError, subprocess.CalledProcessError, ValueError) as error:
                print(f"{name}: not run: {_short(str(error), 110)}", file=sys.stderr, flush=True)
                continue
            new[name] = row(name, known)
            print(new[name], f"`{_short(says, 22)}`", flush=True)
    if asked.write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), new), encoding="utf-8")


if __name__ == "__main__":
    main()
