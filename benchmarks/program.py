"""What llama-server takes beside its buffers: its code, its threads, and the vocabulary.

Usage: ``./dev bench-program SERVER VOCABULARY ...`` (GGUF files with a tokenizer, ``ggml-vocab-*.gguf`` of llama.cpp
for example). Each vocabulary is put into a model of one layer so narrow that its buffers are next to nothing, with a
context of 256 tokens; anonymous memory is read when the server is ready, and after eight requests. ``buffers`` is what
the log names of it: the program is between ``at start - buffers`` and ``at start``. ``code`` are pages of its files.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.memory import MIB, ask, logged, resident  # noqa: E402

THREADS = ("-t", "1", "--threads-http", "4")


def narrow(vocabulary: str, path: Path) -> tuple[str, int, int]:
    """Write the model; (tokenizer, tokens, merges)."""
    from gguftool.model import open_model
    from tests.build import llama

    g = llama(arch="llama")
    with open_model(vocabulary) as m:
        fields = [f for f in m.fields.values() if f.key.startswith("tokenizer.")]
        model, tokens = str(m["tokenizer.ggml.model"]), m.fields["tokenizer.ggml.tokens"].count
        merges = m.fields["tokenizer.ggml.merges"].count if "tokenizer.ggml.merges" in m.fields else 0
        g.drop(*(f"tokenizer.ggml.{x}" for x in ("model", "tokens", "scores", "token_type", "bos_token_id",
                                                   "eos_token_id", "unknown_token_id")))  # fmt: skip
        for f in fields:
            g.raw_kv(f.raw)
    g.retensor("token_embd.weight", shape=(64, tokens), type="q4_0", data=bytes(tokens * 36))
    g.write(path)
    return model, tokens, merges


def measured(server: str, model: Path, folder: Path) -> list[float]:
    """MiB: anonymous when ready and after eight requests, its buffers but mapped weights, files but the model."""
    from gguftool.run.reach import Way
    from gguftool.run.server import free_port, start, stop, wait_until_ready

    port = free_port("127.0.0.1")
    words = [server, "-m", str(model), "-c", "256", "-np", "1", "--port", str(port), "-lv", "4", "-cram", "0", *THREADS]
    running = start(words, str(folder / "server.log"), Way("127.0.0.1", port))
    try:
        if not wait_until_ready(running, 300):
            raise SystemExit(running.log()[-2000:])
        ready = resident(running.process.pid)
        code = resident(running.process.pid, "RssFile") - model.stat().st_size
        for i in range(8):
            ask(port, {"prompt": f"one {i}", "n_predict": 2, "temperature": 0})
        after = resident(running.process.pid)
    finally:
        stop(running)
    log = "\n".join(x for x in running.log().splitlines() if "_Mapped" not in x)
    return [ready / MIB, after / MIB, logged(log), code / MIB]


def main(argv: list[str]) -> int:
    """Print the table."""
    if len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    head = ("vocabulary", "tokenizer", "tokens", "merges", "at start", "after 8", "buffers", "code")
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "narrow.gguf"
        for vocabulary in argv[1:]:
            model, tokens, merges = narrow(vocabulary, path)
            try:
                row = measured(argv[0], path, Path(name))
            except SystemExit as error:
                print(f"{vocabulary}: {error}", file=sys.stderr)
                continue
            title = Path(vocabulary).stem.removeprefix("ggml-vocab-")
            figures = " | ".join(f"{x:.1f}" for x in row)
            print(f"| {title} | {model} | {tokens} | {merges} | {figures} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
