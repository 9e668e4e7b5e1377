"""The measurement of `gguftool.run.divergence` through the program ``llama-perplexity``.

The program writes what the first reader says into a file, then compares each other with it
(`perplexity.cpp:kl_divergence`, b11434). Its numbers are read from what it prints.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

from gguftool.errors import ToolFailed
from gguftool.files.small import scratch_folder
from gguftool.programs import Tool, run
from gguftool.regex import regex
from gguftool.run.args import TRACE, has_levels, spellings
from gguftool.run.capabilities import Capabilities, capabilities
from gguftool.run.diagnose import explain_text
from gguftool.run.log import read_log

PROGRAM = "llama-perplexity"
_NUMBER = r"\s*(-?[\d.]+)"
# Between a value and its error stands a plus-minus sign, which some consoles spoil.
_WITH_ERROR = _NUMBER + r"\s+\S+\s+([\d.]+)"
_PPL = regex(r"Final estimate: PPL =" + _WITH_ERROR)
_FEWEST_PRINTED = 100
"""Positions below which the program prints no statistics (`perplexity.cpp`)."""
_PAIRS = {
    ("perplexity", "perplexity_error"): regex(r"Mean\s+PPL\(Q\)\s*:" + _WITH_ERROR),
    ("log_ratio", "ratio_error"): regex(r"Mean\s+ln\(PPL\(Q\)/PPL\(base\)\)\s*:" + _WITH_ERROR),
    ("divergence", "divergence_error"): regex(r"Mean\s+KLD:" + _WITH_ERROR),
    ("same_first", "same_error"): regex(r"Same top p:" + _WITH_ERROR),
    ("change", "change_error"): regex(r"Mean\s+\S*p:" + _WITH_ERROR),
    ("change_rms", "rms_error"): regex(r"RMS\s+\S*p\s*:" + _WITH_ERROR),
}
_ONES = {
    "median": regex(r"Median\s+KLD:" + _NUMBER),
    "divergence_high": regex(r"99\.0%\s+KLD:" + _NUMBER),
    "highest": regex(r"99\.9%\s+KLD:" + _NUMBER),
    "largest": regex(r"Maximum\s+KLD:" + _NUMBER),
}
_PERCENT = ("same_first", "same_error", "change", "change_error", "change_rms", "rms_error")
_VITAL = ("log_ratio", "divergence", "same_first")
_SPEED = regex(r"prompt eval time =.*?([\d.]+) tokens per second")
BASE = "base.kld"


def measure(
    tool: Tool, request: dict[str, Any], timeout: float, tell: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """``tokens``, and ``results`` with fields of `gguftool.run.divergence.Outcome`, the first being the reference.

    Args:
        tool: the program.
        request: as for the library's child: readers, text, tokens, chunk, threads.
        timeout: seconds for each run.
        tell: called with a line about progress.

    Raises:
        ToolFailed: the program fails on the first, or prints something else than expected.
    """
    build = capabilities(tool)
    chunk, chunks = int(request["chunk"]), int(request["tokens"]) // int(request["chunk"])
    results: list[dict[str, Any]] = []
    with scratch_folder() as folder:
        base = os.path.join(folder, BASE)
        for number, reader in enumerate(request["readers"]):
            args = _arguments(build, request, reader, base, chunks, compare=number > 0)
            done = run(tool, *args, seconds=timeout)
            text = done.stdout + done.stderr
            if done.returncode != 0:
                if number == 0:
                    raise ToolFailed(f"{tool.path} failed: {_reason(text, done.returncode)}", "gguftool check-log")
                results.append({"refused": _reason(text, done.returncode)})
            else:
                results.append(parse_comparison(text) if number else parse_base(text))
            tell(f"{number + 1} of {len(request['readers'])} are read")
    return {"tokens": chunks * chunk, "results": results}


def _arguments(
    build: Capabilities, request: dict[str, Any], reader: Sequence[str], base: str, chunks: int, *, compare: bool
) -> list[str]:
    """Flash attention is on for all types, so that the types alone differ."""
    path, *types = reader
    out = ["-m", path, "-c", str(request["chunk"]), "--chunks", str(chunks), "-t", str(request["threads"])]
    out += ["-ctk", types[0], "-ctv", types[1]]
    flash = build.spelling(spellings("flash_attn"))
    if flash:
        out += [flash, "on"] if build.by_name[flash].value else [flash]
    verbosity = build.spelling(spellings("verbosity"))
    if verbosity and has_levels(build, verbosity):
        out += [verbosity, str(TRACE)]
    out += ["-f", request["text"], "--kl-divergence-base", base]
    return [*out, "--kl-divergence"] if compare else out


def parse_base(text: str) -> dict[str, Any]:
    """The numbers of the reference."""
    match = _PPL.search(text)
    if match is None:
        raise ToolFailed(f"{PROGRAM} printed no final estimate", "is the text long enough for two chunks?")
    return {"perplexity": float(match[1]), "perplexity_error": float(match[2]), "same_first": 1.0, **_costs(text)}


def parse_comparison(text: str) -> dict[str, Any]:
    """The numbers of another.

    Raises:
        ToolFailed: one of them is missing.
    """
    out = {name: float(match[1]) for name, pattern in _ONES.items() if (match := pattern.search(text))}
    for names, pattern in _PAIRS.items():
        if match := pattern.search(text):
            out |= zip(names, (float(match[1]), float(match[2])), strict=True)
    if any(name not in out for name in _VITAL):
        raise ToolFailed(
            f"{PROGRAM} printed no comparison that we know; of fewer than {_FEWEST_PRINTED} positions it prints none",
            "use the library: pip install 'gguftool[server]'",
        )
    out["perplexity_ratio"] = math.exp(out.pop("log_ratio"))
    out["divergence"] = max(0.0, out["divergence"])
    return {name: value / 100 if name in _PERCENT else value for name, value in out.items()} | _costs(text)


def _costs(text: str) -> dict[str, Any]:
    """Cache as logged, rounded by llama.cpp to a hundredth of a MiB, and speed of reading."""
    facts, speed = read_log(text), _SPEED.search(text)
    mib = sum(c.mib for c in facts.caches) + (facts.state_mib or 0.0)
    return {"cache_bytes": round(mib * (1 << 20)), "prompt_speed": float(speed[1]) if speed else 0.0}


def _reason(text: str, code: int) -> str:
    found = explain_text(text)
    return found.line.split(": ", 1)[-1] if found else f"exit code {code}"
