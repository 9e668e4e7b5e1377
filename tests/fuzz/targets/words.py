"""Numbers, sizes, addresses and whatever else stands on the command line: every option of every command."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

import click

from tests.fuzz.target import Target, cli
from tests.lint import samples

ODD = [
    "", "0", "-1", "1", "9" * 30, "9" * 400, "9" * 5000, "1e999", "nan", "inf", "-inf", "0x10", "1_0", "\u0661",
    "\u00b2", "1.5",
    "16GiB", "9" * 400 + "GiB", "1e999GiB", "0.0000001TiB", "1,2", ",", "1,,2", "1:2", ":", "a=b", "=", "a:b=c",
    "x" * 5000,
    "\udcff", "http://host:abc/x.gguf", "http://[::1/x.gguf", "http://127.0.0.1:99999/x.gguf", "hf://", "hf://a/b:c",
    "ollama://../..", "b0", "b" + "9" * 5000, "b8179", "[", "[" * 5000, "{}", '{"a": 1e999}', "\\", "\n", "*", "?",
    "[a", "%", "K",
    "q8_0/\u00b2", "f16", "none", "auto", "all", "llama.context_length=" + "9" * 5000, "llama.rope.freq_base=1e999",
    "general.x:u32=\u00b2", "general.x:f32=nan", "general.x:[u32]=[" + "9" * 5000 + "]",
    "general.x:[i32]=" + "[" * 5000,
    "general.x:bool=\u00b2", "yarn", "linear", "127.0.0.1:\u00b2", "host:99999999999", "C:\\x", "/dev/null", ".",
    "/", "\0",
]  # fmt: skip
NOT = frozenset(
    {"--output", "--join", "--log", "--write-manifest", "--emit", "--plot", "--export", "--output-file", "--edit"}
)
"""They would write outside of the folder, or wait for a person."""
NEVER = frozenset({"prepare", "kv-test", "quant-test", "completion"})
FIRST = {"launch": ("--print",), "convert": ("--check",), "quantize": ("--dry-run",), "split": ("--dry-run",),
         "merge": ("--dry-run",), "fix": ("--dry-run",), "imatrix": ("--show",),
         "mix": ("--target", "9bpw", "--sensitivity", "usual")}  # fmt: skip
PLACES = {"diff": ("M", "M"), "rules": (), "explain": ("llama.context_length",), "doctor": (), "check-log": ("L",),
          "quantize": ("M", "O", "Q4_0"), "split": ("M", "O"), "merge": ("M",), "convert": (".",),
          "diagnose": ("M", "it never stops")}  # fmt: skip


@cache
def options() -> tuple[tuple[str, str], ...]:
    """Command and option that takes a value."""
    from gguftool.cli.group import TABLE, gguftool

    found = []
    with gguftool.make_context("gguftool", ["--version"], resilient_parsing=True) as ctx:
        for entry in TABLE:
            command = gguftool.get_command(ctx, entry.name) if entry.name not in NEVER else None
            for p in command.params if command is not None else ():
                if isinstance(p, click.Option) and not p.is_flag and not NOT & set(p.opts) and p.name != "format":
                    found.append((entry.name, max(p.opts, key=len)))
            found.append((entry.name, ""))
    return tuple(f for f in found if f[0] not in NEVER)


def corpus() -> Sequence[bytes]:
    """Command, option, value."""
    return [f"{command}\x1f{name}\x1f0".encode() for command, name in options()]


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """An option with an odd value; without an option an odd argument."""
    command, name, _ = rng.choice(given).split(b"\x1f")
    return b"\x1f".join((command, name, rng.choice(ODD).encode("utf-8", "surrogatepass")))


def run(data: bytes, folder: Path, rng: Random) -> None:
    """The command on a sound model."""
    command, name, odd = data.decode("utf-8", "surrogatepass").split("\x1f", 2)
    model, log = folder / "m.gguf", folder / "l.log"
    model.write_bytes(samples.ready().bytes())
    log.write_bytes(b"main: server is listening\n")
    places = {"M": str(model), "L": str(log), "O": str(folder / "o.gguf")}
    args = [places.get(w, w) for w in PLACES.get(command, ("M",))]
    if command == "launch" and name == "--translate":
        args = []
    if odd == "/":
        # All of this machine is no odd word.
        odd = str(folder)
    if name:
        args += [f"{name}={odd}" if rng.random() < 0.5 else name, *([odd] if rng.random() < 0.5 else [])]
    elif args:
        args[rng.randrange(len(args))] = odd
    form = ("--format", "json") if rng.random() < 0.3 else ()
    cli(command, *form, *FIRST.get(command, ()), *args)


TARGET = Target(corpus, mutate, run)
