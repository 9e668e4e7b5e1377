"""What an edit costs: add one key to files of real data, against gguf-py's gguf-new-metadata and against cp.

Usage: ``./dev bench-edit [GIGABYTES ...]`` (default 1 4). Files are made under $GGUFTOOL_BENCH_DIR (default: a folder
beside this repository's .venv) and removed afterwards. Every figure is of a whole process, start-up and syncs included;
the page cache of the file is dropped before each run, and the median of three is shown.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.bench.measure import Run, run  # noqa: E402

BIN = Path(sys.executable).parent
RUNS = 3


def make(path: Path, gigabytes: float, tokens: int = 32000) -> None:
    """A llama-like file: a vocabulary of 32,000 tokens and f16 tensors of 32 MiB full of random bytes."""
    from gguftool.format.header import align
    from gguftool.format.render import make_tensor_info, render_parts
    from gguftool.format.types import Layout
    from gguftool.format.values import make_field

    layout = Layout()
    fields = [
        make_field("general.architecture", "str", "llama", layout),
        make_field("general.name", "str", "benchmark", layout),
        make_field("llama.context_length", "u32", 4096, layout),
        make_field("tokenizer.ggml.model", "str", "llama", layout),
        make_field("tokenizer.ggml.tokens", "[str]", [f"token{i}" for i in range(tokens)], layout),
        make_field("tokenizer.ggml.scores", "[f32]", [float(-i) for i in range(tokens)], layout),
        make_field("tokenizer.ggml.token_type", "[i32]", [1] * tokens, layout),
    ]
    size = 32 << 20
    count = max(1, round(gigabytes * 1e9 / size))
    infos = [make_tensor_info(f"blk.{i}.ffn_up.weight", (4096, 4096), 1, i * size, layout) for i in range(count)]
    header = render_parts(layout, fields, infos)
    noise = os.urandom(size)
    with open(path, "wb") as f:
        f.write(header + bytes(align(len(header), 32) - len(header)))
        for i in range(count):
            f.write(noise[i % 4096 :] + noise[: i % 4096])
        f.flush()
        os.fsync(f.fileno())


def cold(path: Path) -> None:
    """Drop the file from the page cache."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def median(costs: list[Run]) -> Run:
    """Median of the times, the highest peak."""
    return Run(
        statistics.median(c.cpu for c in costs),
        statistics.median(c.wall for c in costs),
        max(c.mebibytes for c in costs),
    )


def gguftool(*args: object) -> list[str]:
    """A gguftool command line of this environment."""
    return [str(BIN / "gguftool"), "-q", *map(str, args)]


def measure(path: Path) -> dict[str, Run]:
    """All ways to add a key to one file."""
    out: dict[str, list[Run]] = {}
    copy = path.with_name("copy.gguf")

    def once(name: str, *command: str) -> None:
        cold(path)
        out.setdefault(name, []).append(run(list(command)))

    for _ in range(RUNS):
        once("cp", "cp", str(path), str(copy))
        copy.unlink()
        once("cp, then sync", "sh", "-c", 'cp "$1" "$2" && sync "$2"', "sh", str(path), str(copy))
        copy.unlink()
        script = 'cp "$1" "$2" && sync "$2" && mv "$2" "$1" && sync "$(dirname "$1")"'
        once("cp, sync, mv (what a rewrite is)", "sh", "-c", script, "sh", str(path), str(copy))
        once("gguftool insert", *gguftool("fix", path, "--set", "general.author=me"))
        once("gguftool patch", *gguftool("fix", path, "--set", "general.license=mit"))
        once("gguftool undo (patch)", *gguftool("undo", path))
        once("gguftool undo (collapse)", *gguftool("undo", path))
        once(
            "gguftool rewrite",
            *gguftool("fix", path, "--set", "general.author=me", "--strategy", "rewrite", "--no-undo"),
        )
        once("back to the start", *gguftool("fix", path, "--delete", "general.author", "--strip-padding", "--no-undo"))
    other = BIN / "gguf-new-metadata"
    if other.exists():
        cold(path)
        out["gguf-new-metadata"] = [
            run([str(other), "--general-description", "me", str(path), str(copy)])  # once: it takes long
        ]
        copy.unlink()
    del out["back to the start"]
    return {name: median(costs) for name, costs in out.items()}


def hundred(path: Path) -> tuple[float, float]:
    """Seconds of an edit, mean of the first and of the last ten of a hundred, in one process."""
    from gguftool.edit.ops import Set
    from gguftool.edit.plan import plan_edit

    times = []
    for i in range(100):
        start = time.perf_counter()
        plan_edit(path, [Set(f"bench.key.{i}", "x" * 1500, "str")]).commit()
        times.append(time.perf_counter() - start)
    return statistics.mean(times[:10]), statistics.mean(times[-10:])


def main(sizes: list[float]) -> int:
    """Print the table."""
    folder = os.environ.get("GGUFTOOL_BENCH_DIR") or str(ROOT / ".venv")
    with tempfile.TemporaryDirectory(prefix="bench-edit-", dir=folder) as name:
        results: dict[float, dict[str, Run]] = {}
        rows: dict[float, tuple[float, float]] = {}
        for gigabytes in sizes:
            if shutil.disk_usage(name).free < 2.2e9 * gigabytes + 2e9:
                print(f"{gigabytes:g} GB: not enough free disk, left out", file=sys.stderr)
                continue
            path = Path(name) / f"m{gigabytes:g}.gguf"
            make(path, gigabytes)
            results[gigabytes] = measure(path)
            rows[gigabytes] = hundred(path)
            for p in Path(name).iterdir():
                p.unlink()
        ways = list(dict.fromkeys(way for r in results.values() for way in r))
        print("add one key: wall seconds (times as fast as cp) / peak MiB of the process\n")
        print("| way | " + " | ".join(f"{g:g} GB" for g in results) + " |")
        print("|---|" + "---|" * len(results))
        for way in ways:
            cells = []
            for r in results.values():
                cost, cp = r[way], r["cp"]
                cells.append(f"{cost.wall:.2f} s ({cp.wall / cost.wall:.1f}x) / {cost.mebibytes:.0f}")
            print(f"| {way} | " + " | ".join(cells) + " |")
        print()
        for g, (first, last) in rows.items():
            print(f"100 edits in a row, {g:g} GB: {first * 1000:.0f} ms each at first, {last * 1000:.0f} ms at the end")
    return 0


if __name__ == "__main__":
    sys.exit(main([float(a) for a in sys.argv[1:]] or [1, 4]))
