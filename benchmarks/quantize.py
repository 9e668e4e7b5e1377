"""Processor time of the built-in quantiser beside the real llama library, on the same files and cores.

``python benchmarks/quantize.py`` makes F16 models of SmolLM2-135M (271 MB) and gemma-3-270m (543 MB) and quantises them
in turns: by the library alone (in a child process, as little of gguftool as possible), by gguftool driving the library,
and by the built-in engine. Whole processes with all their children; the files of all three must be the same, byte for
byte. What counts is the processor time: medians of the ratios of runs one after the other. The clock is printed, and is
worth as much as the machine is at rest.

``--large`` quantises an F16 model of 4 GB, made for it, by the library and the built-in engine: the most memory that a
process of each took. It needs 7 GB of disk.

``--check`` makes a missed goal the exit code 1: built-in at most the processor time of the library, driver at most 5 %
and half a second on top, of 4 GB less than 100 MiB of memory.

Needs npm, for the library.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.building.node_library import fetch
from tests.real_models import GEMMA3, SMOLLM2, ensure

TYPES = {"Q8_0": 7, "Q4_K_M": 15, "Q6_K": 18, "IQ4_XS": 30}
SLOW = ("IQ4_XS",)
"""Of the smaller model only: seconds of minutes."""
CONSTANT = 0.5
"""Seconds that driving the library may cost on top: start, plan, fsync of the last pages, check."""
MOST_MEMORY = 100
"""MiB of any process of the built-in engine."""
WAYS = ("library alone", "gguftool, library", "gguftool, built-in")


class Run(NamedTuple):
    """Seconds of the processor and of the clock, of a process and its children; MiB of the largest of them; sha256."""

    processor: float
    clock: float
    memory: int
    digest: str


def command(way: str, library: Path, source: Path, output: Path, name: str) -> tuple[list[str], bytes]:
    """The process of one way, and what it reads."""
    if way == "library alone":
        job = {"library": str(library), "input": str(source), "output": str(output), "ftype": TYPES[name]}
        job_text = json.dumps({**job, "threads": os.cpu_count()}).encode()
        return [sys.executable, "-m", "gguftool.build.libworker"], job_text
    engine = "builtin" if way.endswith("built-in") else "library"
    argv = [sys.executable, "-m", "gguftool", "-q", "quantize", str(source), str(output), name, "--engine", engine]
    return [*argv, "--llama-cpp", str(library.parent), "--no-provenance", "--overwrite"], b""


def measured(way: str, library: Path, source: Path, output: Path, name: str) -> Run:
    """One process from start to end; its file is deleted."""
    argv, text = command(way, library, source, output, name)
    with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as said:
        told.write(text)
        told.seek(0)
        start = time.perf_counter()
        child = subprocess.Popen(argv, stdin=told, stdout=said, stderr=said)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            said.seek(0)
            raise SystemExit(f"{way}: {said.read().decode()[-500:]}")
    with open(output, "rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest()
    output.unlink()
    return Run(usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss // 1024, digest)


def f16_of(model: Path, folder: Path) -> Path:
    """The same model in F16."""
    source = folder / f"{model.stem}-f16.gguf"
    argv = [sys.executable, "-m", "gguftool", "-q", "quantize", str(model), str(source), "F16"]
    subprocess.run([*argv, "--allow-requantize", "--engine", "builtin"], check=True, capture_output=True)
    return source


def tensors(layers: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of a llama of 4,096 wide."""
    yield from (("token_embd.weight", (4096, 32000)), ("output_norm.weight", (4096,)), ("output.weight", (4096, 32000)))
    parts = {"attn_norm": (4096,), "attn_q": (4096, 4096), "attn_k": (4096, 1024), "attn_v": (4096, 1024)}
    parts |= {"attn_output": (4096, 4096), "ffn_norm": (4096,), "ffn_gate": (4096, 14336), "ffn_up": (4096, 14336)}
    for i in range(layers):
        for name, shape in {**parts, "ffn_down": (14336, 4096)}.items():
            yield f"blk.{i}.{name}.weight", shape


def large(folder: Path, layers: int = 8) -> Path:
    """A model of 4 GB in F16, of small random numbers, without a vocabulary."""

    def text(x: str) -> bytes:
        return struct.pack("<Q", len(x)) + x.encode()

    numbers = {"context_length": 512, "embedding_length": 4096, "block_count": layers, "feed_forward_length": 14336}
    numbers |= {"attention.head_count": 32, "attention.head_count_kv": 8, "vocab_size": 32000}
    keys = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    keys += [text("general.file_type") + struct.pack("<II", 4, 1)]
    keys += [text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5)]
    keys += [text(f"llama.{key}") + struct.pack("<II", 4, value) for key, value in numbers.items()]
    infos, pieces, at = [], [], 0
    for name, shape in tensors(layers):
        size = shape[0] * shape[1] * 2 if len(shape) > 1 else shape[0] * 4
        place = struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 1 if len(shape) > 1 else 0, at)
        infos.append(text(name) + place)
        pieces.append((at, size, len(shape) > 1))
        at += size
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(infos), len(keys)) + b"".join(keys) + b"".join(infos)
    header += bytes(-len(header) % 32)
    # F16 between 0.0078 and 2, either sign; an odd length, so that no rows are alike.
    rng = random.Random(1)
    pool = bytes(x & 0xBF | 0x20 if i % 2 else x for i, x in enumerate(rng.randbytes(5_000_002)))
    path = folder / "large-f16.gguf"
    with open(path, "wb") as f:
        f.write(header)
        for start, size, matrix in pieces:
            f.seek(len(header) + start)
            if not matrix:
                f.write(struct.pack("<f", 1) * (size // 4))
                continue
            for done in range(0, size, len(pool)):
                f.write(pool[: size - done])
    return path


def compared(source: Path, name: str, ways: tuple[str, ...], runs: int, library: Path) -> dict[str, list[Run]]:
    """Every way in turns, as often as asked for."""
    found: dict[str, list[Run]] = {way: [] for way in ways}
    for _ in range(runs):
        for way in ways:
            found[way].append(measured(way, library, source, source.parent / "out.gguf", name))
    return found


def ratio(found: dict[str, list[Run]], way: str) -> float:
    """Processor time beside the library's, to two places."""
    pairs = zip(found[way], found[WAYS[0]], strict=True)
    return round(median(one.processor / base.processor for one, base in pairs), 2)


def main() -> int:
    """Print the table; 1 when a goal is missed and ``--check`` is set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="the model of 4 GB, and nothing else")
    parser.add_argument("--type", action="append", choices=list(TYPES), help="only this one; repeatable")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    from gguftool.build.tools import libllama
    from gguftool.report.text import table

    folder = fetch()
    if isinstance(folder, str):
        raise SystemExit(folder)
    tool = libllama(str(folder))
    if tool is None:
        raise SystemExit(f"{folder}: no library in it")
    library, missed, rows = Path(tool.path), [], []
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        sources = [large(place)] if options.large else [f16_of(ensure(m), place) for m in (SMOLLM2, GEMMA3)]
        ways = (WAYS[0], WAYS[2]) if options.large else WAYS
        for no, source in enumerate(sources):
            for name in options.type or (["Q8_0"] if options.large else TYPES):
                if no and name in SLOW:
                    continue
                found = compared(source, name, ways, options.runs, library)
                same = len({run.digest for one in found.values() for run in one}) == 1
                own, memory = ratio(found, WAYS[2]), max(run.memory for run in found[WAYS[2]])
                what = f"{source.stem} {name}"
                missed += [f"{what}: other bytes"] if not same else []
                missed += [f"{what}: {own} times the library's processor time"] if own > 1 else []
                missed += [f"{what}: {memory} MiB"] if memory > MOST_MEMORY else []
                seconds = {way: median(run.processor for run in found[way]) for way in ways}
                if WAYS[1] in seconds and seconds[WAYS[1]] > 1.05 * seconds[WAYS[0]] + CONSTANT:
                    missed.append(f"{what}: driving the library costs {seconds[WAYS[1]] - seconds[WAYS[0]]:.2f} s")
                for way in ways:
                    clock, most = median(run.clock for run in found[way]), max(run.memory for run in found[way])
                    figures = [f"{seconds[way]:.2f}", f"{ratio(found, way):.2f}", f"{clock:.2f}", most]
                    rows.append([source.stem, name, way, *figures, same])
    heads = ["model", "type", "way", "processor s", "ratio", "clock s", "most MiB", "same bytes"]
    print(f"{os.cpu_count()} cores, median of {options.runs}")
    print(table(rows, heads, align="lllrrrrl"))
    print("goals: " + ("; ".join(missed) or "met"))
    return int(bool(missed) and options.check)


if __name__ == "__main__":
    sys.exit(main())
