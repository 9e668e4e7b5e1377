"""What the emitted files have in common: our own command, memory, names, and words as YAML has them."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Sequence

from gguftool.errors import UsageError
from gguftool.memory.limit import host_limit, host_start
from gguftool.model.shards import naming
from gguftool.programs import SERVER
from gguftool.records import replace
from gguftool.regex import regex
from gguftool.run.args import own_words
from gguftool.run.launch import LaunchPlan
from gguftool.run.options.extra import secret_words
from gguftool.run.target import build_name
from gguftool.run.wishes import Wishes


def own_command(plan: LaunchPlan, *last: str, program: str = "gguftool") -> list[str]:
    """The ``gguftool launch`` that plans the same again."""
    return [program, "launch", plan.model, *last, *own_words(replace(plan.wishes, against=None))]


def with_program(plan: LaunchPlan) -> LaunchPlan:
    """The same with the llama.cpp named that was found: no service manager has the variables and PATH of this shell."""
    w, tool = plan.wishes, plan.engine.tool
    if w.server is not None or tool is None or plan.engine.name != SERVER:
        return plan
    return replace(plan, wishes=replace(w, server=os.path.abspath(tool.path)))


def hook(plan: LaunchPlan, force: Sequence[str], program: str = "gguftool") -> list[str]:
    """The preflight: it looks at the memory there is when the server is about to start, if none was named."""
    w = plan.wishes
    judged = replace(plan, wishes=replace(w, ram="auto" if w.ram is None else w.ram))
    return own_command(judged, "--print", *force, program=program)


def path(w: Wishes, name: str) -> str:
    """An endpoint as it is under the prefix."""
    return (w.api_prefix or "") + name


def scheme(w: Wishes) -> str:
    """How the server is spoken to."""
    return "https" if w.ssl_cert_file and w.ssl_key_file else "http"


def no_secrets(w: Wishes) -> None:
    """Refuse what would stand in a file for everybody to read.

    Raises:
        UsageError: a key is on the command line.
    """
    if secret_words(w):
        raise UsageError(
            "a key on the command line would stand in this file for everybody to read",
            "write it into a file that only the server may read, and name that: --api-key-file FILE",
        )


def utf8(words: Sequence[str]) -> None:
    """Refuse what a file of text cannot hold: the bytes of a name that are no UTF-8.

    Raises:
        UsageError: there are such.
    """
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{word!r}: is not UTF-8, and no file of this kind holds it", "another name") from None


def which(plan: LaunchPlan) -> str:
    """The build that the options are spelled for."""
    return f"llama.cpp {build_name(plan.engine.build)}"


def installed() -> str:
    """The program that this is."""
    import shutil

    beside = os.path.join(os.path.dirname(sys.executable), "gguftool")
    return shutil.which("gguftool") or (beside if os.access(beside, os.X_OK) else "gguftool")


def mib(plan: LaunchPlan) -> int:
    """Host memory to allow, in MiB, rounded up to a multiple of 64: with all that comes after the start."""
    needed, there = host_limit(plan.memory), plan.memory.devices[-1].memory
    return _round(needed) if there is None or needed > there else min(_round(needed), there >> 20)


def mib_start(plan: LaunchPlan) -> int:
    """Host memory at the start in MiB, rounded likewise: what has to be there before anything grows."""
    return min(_round(host_start(plan.memory)), mib(plan))


def _round(size: int) -> int:
    return math.ceil(size / (64 << 20)) * 64


def name(file: str) -> str:
    """A name for the service, out of that of the model."""
    stem = os.path.basename(file).removesuffix(".gguf").lower()
    clean = re.sub(r"[^a-z0-9]+", "-", re.sub(r"-00001-of-\d{5}$", "", stem)).strip("-")
    return f"llama-{clean or 'model'}"[:60].rstrip("-")


def title(file: str, own: str = "") -> str:
    """What a model is asked for by: the words of its file, without the ending and the number of a shard.

    Args:
        file: its path.
        own: the name that it gives itself, for a file that a store calls by its hash.
    """
    stem = os.path.basename(file).removesuffix(".gguf")
    if (said := naming(file)) is not None and said.count > 1:
        stem = said.stem
    if HASH.fullmatch(stem) and own:
        stem = own[:200]
    clean = re.sub(r"\.(?=[A-Za-z])", "-", re.sub(r"[^A-Za-z0-9._-]+", "-", stem)).strip("-._")[:80]
    # The section that the router takes for that of no model.
    return f"{clean}-model" if clean == "default" else clean or "model"


HASH = regex(r"(?:sha256[:-])?[0-9a-f]{40,64}")
"""Names that stores of content give."""


def comment(text: str) -> str:
    """Text for a comment: one line, whatever is in it."""
    return "".join(c if c.isprintable() else "?" for c in text)


def yaml(text: str) -> str:
    """A YAML string in double quotes."""
    return '"' + "".join(_escaped(c) for c in text) + '"'


def _escaped(c: str) -> str:
    if c in '"\\':
        return "\\" + c
    if c.isprintable():
        return c
    return f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\u{ord(c):04x}" if ord(c) < 1 << 16 else f"\\U{ord(c):08x}"


def flow(words: Sequence[str]) -> str:
    """A list in one line."""
    return "[" + ", ".join(words) + "]"
