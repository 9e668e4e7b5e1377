"""The measurement of `gguftool.run.kvtest` through the program ``llama-perplexity``, where the library is missing.

The program writes what an f16 cache makes the model say into a file, then compares each other type with it
(`perplexity.cpp:kl_divergence`, b11434). Its numbers are read from what it prints.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from gguftool.errors import ToolFailed
from gguftool.files.small import scratch_folder
from gguftool.programs import Tool, run
from gguftool.run.args import TRACE, has_levels, spellings
from gguftool.run.capabilities import Capabilities, capabilities
from gguftool.run.diagnose import explain_text
from gguftool.run.log import read_log

PROGRAM = "llama-perplexity"
_NUMBER = r"\s*(-?[\d.]+)"
# Between a value and its error stands a plus-minus sign, which some consoles spoil.
_WITH_ERROR = _NUMBER + r"\s+\S+\s+([\d.]+)"
_PPL = re.compile(r"Final estimate: PPL =" + _NUMBER)
_PPL_Q = re.compile(r"Mean\s+PPL\(Q\)\s*:" + _NUMBER)
_RATIO = re.compile(r"Mean\s+ln\(PPL\(Q\)/PPL\(base\)\)\s*:" + _WITH_ERROR)
_KLD = re.compile(r"Mean\s+KLD:" + _WITH_ERROR)
_KLD_99 = re.compile(r"99\.0%\s+KLD:" + _NUMBER)
_SAME = re.compile(r"Same top p:" + _NUMBER)
_SPEED = re.compile(r"prompt eval time =.*?([\d.]+) tokens per second")
BASE = "base.kld"


def measure(
    tool: Tool, request: dict[str, Any], timeout: float, tell: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """As the library's child answers: ``tokens``, ``compared`` and ``results``, the first being f16.

    Args:
        tool: the program.
        request: as for the child: path, text, types, tokens, chunk, threads.
        timeout: seconds for each run.
        tell: called with a line about progress.

    Raises:
        ToolFailed: the program fails on the f16 cache, or prints something else than expected.
    """
    build = capabilities(tool)
    chunk, chunks = int(request["chunk"]), int(request["tokens"]) // int(request["chunk"])
    results: list[dict[str, Any]] = []
    with scratch_folder() as folder:
        base = os.path.join(folder, BASE)
        for number, (type_k, type_v) in enumerate(request["types"]):
            args = _arguments(build, request, (type_k, type_v), base, chunks, compare=number > 0)
            done = run(tool, *args, seconds=timeout)
            text = done.stdout + done.stderr
            head = {"type_k": type_k, "type_v": type_v}
            if done.returncode != 0:
                if number == 0:
                    raise ToolFailed(f"{tool.path} failed: {_reason(text, done.returncode)}", "gguftool check-log")
                results.append({**head, "refused": _reason(text, done.returncode)})
            else:
                results.append(head | (parse_comparison(text) if number else parse_base(text)))
            tell(f"{number + 1} of {len(request['types'])} types")
    compared = chunks * max(0, chunk - chunk // 2 - 1)
    return {"tokens": chunks * chunk, "compared": compared, "results": results}


def _arguments(
    build: Capabilities, request: dict[str, Any], types: Sequence[str], base: str, chunks: int, *, compare: bool
) -> list[str]:
    """Flash attention is on for all types, so that the types alone differ."""
    out = ["-m", request["path"], "-c", str(request["chunk"]), "--chunks", str(chunks), "-t", str(request["threads"])]
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
        raise ToolFailed(f"{PROGRAM} printed no final estimate", "is the text long enough for one chunk?")
    return {"perplexity": float(match[1]), "same_first": 1.0, **_costs(text)}


def parse_comparison(text: str) -> dict[str, Any]:
    """The numbers of another type.

    Raises:
        ToolFailed: one of them is missing.
    """
    ratio, kld, same = _RATIO.search(text), _KLD.search(text), _SAME.search(text)
    if ratio is None or kld is None or same is None:
        raise ToolFailed(
            f"{PROGRAM} printed no comparison that we know", "use the library: pip install 'gguftool[server]'"
        )
    ppl, high = _PPL_Q.search(text), _KLD_99.search(text)
    return {
        "perplexity": float(ppl[1]) if ppl else 0.0,
        "perplexity_ratio": math.exp(float(ratio[1])),
        "ratio_error": float(ratio[2]),
        "divergence": max(0.0, float(kld[1])),
        "divergence_error": float(kld[2]),
        "divergence_high": float(high[1]) if high else 0.0,
        "same_first": float(same[1]) / 100,
        **_costs(text),
    }


def _costs(text: str) -> dict[str, Any]:
    """Cache as logged, rounded by llama.cpp to a hundredth of a MiB, and speed of reading."""
    facts, speed = read_log(text), _SPEED.search(text)
    mib = sum(c.mib for c in facts.caches) + (facts.state_mib or 0.0)
    return {"cache_bytes": round(mib * (1 << 20)), "prompt_speed": float(speed[1]) if speed else 0.0}


def _reason(text: str, code: int) -> str:
    found = explain_text(text)
    return found.line.split(": ", 1)[-1] if found else f"exit code {code}"
