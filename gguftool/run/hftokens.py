"""Token ids from Hugging Face's ``tokenizers`` library, in a child process: a hostile file costs a bounded time.

Our own environment need not have the library: that of the converter has it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from gguftool.endings import run
from gguftool.errors import ToolFailed
from gguftool.lint.tokenized import Cut

TIMEOUT = 300.0
PACKAGE = "tokenizers"
CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hfchild.py")


def cut_by_source(
    name: str,
    document: bytes,
    texts: Sequence[str],
    *,
    begin_and_end: bool = False,
    python: str | None = None,
    timeout: float = TIMEOUT,
) -> list[Cut]:
    """Tokenise texts as a ``tokenizer.json`` says.

    Args:
        name: of the file, for messages.
        document: what is in it.
        texts: valid Unicode.
        begin_and_end: add what its post-processor puts around a text.
        python: an interpreter with the library, taken where ours has it not.
        timeout: seconds for all of it.

    Raises:
        ToolFailed: the library is not installed, does not take the file, ended, or took too long.
    """
    own = find_spec(PACKAGE) is not None
    if not own and python is None:
        raise ToolFailed(
            f"comparing tokenizers needs the package {PACKAGE}, which is not installed",
            "pip install 'gguftool[tokenizer]'",
        )
    request = {"document": document.decode("utf-8", "replace"), "texts": list(texts), "add": begin_and_end}
    env = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "RUST_BACKTRACE": "0"}
    try:
        # Nothing beside the script is to be taken for a module of the library's.
        argv = [sys.executable, "-P", CHILD] if own or python is None else [python, "-I", CHILD]
        done = run(argv, timeout, stdin=json.dumps(request), env=env)
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
