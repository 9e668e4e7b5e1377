"""Token ids from Hugging Face's ``tokenizers`` library, in a child process: a hostile file costs a bounded time.

Run as ``python -m gguftool.run.hftokens`` it reads one JSON request from stdin and writes one line of JSON to stdout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from gguftool.endings import run
from gguftool.errors import ToolFailed
from gguftool.lint.tokenized import Cut

TIMEOUT = 300.0
PACKAGE = "tokenizers"


def cut_by_source(
    name: str, document: bytes, texts: Sequence[str], *, begin_and_end: bool = False, timeout: float = TIMEOUT
) -> list[Cut]:
    """Tokenise texts as a ``tokenizer.json`` says.

    Args:
        name: of the file, for messages.
        document: what is in it.
        texts: valid Unicode.
        begin_and_end: add what its post-processor puts around a text.
        timeout: seconds for all of it.

    Raises:
        ToolFailed: the library is not installed, does not take the file, ended, or took too long.
    """
    if find_spec(PACKAGE) is None:
        raise ToolFailed(
            f"comparing tokenizers needs the package {PACKAGE}, which is not installed",
            "pip install 'gguftool[tokenizer]'",
        )
    request = {"document": document.decode("utf-8", "replace"), "texts": list(texts), "add": begin_and_end}
    env = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "RUST_BACKTRACE": "0"}
    try:
        done = run([sys.executable, "-m", "gguftool.run.hftokens"], timeout, stdin=json.dumps(request), env=env)
    except subprocess.TimeoutExpired:
        raise ToolFailed(f"{PACKAGE} did not tokenise with {name} in {timeout:.0f} seconds") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        last = [x for x in done.stderr.splitlines() if x.strip()][-1:] or ["no message"]
        raise ToolFailed(f"{PACKAGE} ended while it read {name}: {last[0]}")
    answer = json.loads(lines[-1])
    if "error" in answer:
        raise ToolFailed(f"{PACKAGE} does not take {name}: {answer['error']}")
    return [Cut(tuple(ids), tuple(pieces)) for ids, pieces in answer["cuts"]]


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """The child's part."""
    import tokenizers

    try:
        made = tokenizers.Tokenizer.from_str(request["document"])
    except Exception as error:  # the library raises bare ones
        return {"error": str(error)}
    # A file can ask for texts to be cut short or filled up; that is no matter of the tokens.
    made.no_truncation()
    made.no_padding()
    cuts = (made.encode(text, add_special_tokens=request["add"]) for text in request["texts"])
    return {"cuts": [(cut.ids, cut.tokens) for cut in cuts]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answer(json.load(sys.stdin))) + "\n")
    sys.stdout.flush()
    os._exit(0)
