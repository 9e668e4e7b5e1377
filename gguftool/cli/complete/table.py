"""Which completer a parameter has: one table for all commands.

A row is the name that help shows for an option, or the name of an argument; a row of one command alone has the command
in front. What is a list by its type (choices, the rows of `gguftool.run.options`) needs none; `tests/cli` walks all
parameters and finds one without.
"""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from gguftool.cli.complete import sources
from gguftool.cli.complete.offer import (
    OPEN,
    Asked,
    Completer,
    Name,
    choose,
    equals,
    files,
    first,
    free,
    item,
    several,
    these,
)

GGUF = ".gguf"
SCHEMES = ("hf://", "https://", "ollama://", "s3://", "gs://", "az://", "sftp://")
ANY_FILE = files()
FOLDER = files(folders=True)
JSON = files(".json")
TOML = files(".toml")


def _address(asked: Asked, begun: str) -> Iterable[CompletionItem]:
    return [item(scheme, OPEN) for scheme in SCHEMES if begun and scheme.startswith(begun)]


MODELS = first(files(GGUF), _address)
WORDS = free("any text")
NUMBER = free("any number")
RULES = choose(sources.rules, ",")
CACHE_TYPE = choose(sources.cache_types, "/")
KNOWN = several(sources.known_keys, sources.keys)


def _explained(asked: Asked, begun: str) -> Iterable[CompletionItem]:
    """Keys; those under an architecture also with it in front."""
    arch, dot, _ = begun.partition(".")
    under = dot and arch in set(map(str, sources.architectures(asked)))
    known = [str(key) for key in sources.known_keys(asked)]
    return choose(these(*known, *(f"{arch}.{key}" for key in known if under)))(asked, begun)


def _setting(asked: Asked, begun: str) -> Iterable[CompletionItem]:
    """``KEY=VALUE``, ``KEY:TYPE=VALUE``."""
    key, colon, kind = begun.partition(":")
    if colon and "=" not in begun:
        return [item(f"{key}:{i.value}", OPEN) for i in choose(sources.value_types, end="=")(asked, kind)]
    return equals(choose(KNOWN, end="="), sources.values)(asked, begun)


def _file_of(keys: Completer, paths: Completer) -> Completer:
    """``KEY=PATH``."""

    def complete(asked: Asked, begun: str) -> Iterable[CompletionItem]:
        key, sign, path = begun.partition("=")
        if not sign:
            return keys(asked, begun)
        return [item(f"{key}={i.value}", i.type) for i in paths(asked, path)]

    return complete


def _renamed(asked: Asked, name: str) -> Iterable[Name]:
    return sources.known_keys(asked)


def _server_argument(asked: Asked, begun: str) -> Iterable[CompletionItem]:
    """What stands behind ``--``: llama-server's options, and the values of those that have a list."""
    from gguftool.run.options.table import by_name

    found = by_name().get(asked.before[-1]) if asked.before else None
    if found is not None and found.takes and not begun.startswith("-"):
        return of_row(found.option)(asked, begun)
    return choose(sources.flags)(asked, begun) if begun else ()


TABLE: dict[str, Completer] = {
    # Models and what lies beside them.
    "model": MODELS,
    "models": MODELS,
    "old": MODELS,
    "new": MODELS,
    "shards": MODELS,
    "paths": MODELS,
    "files": MODELS,
    "extra": _server_argument,
    "--from": MODELS,
    "--with": MODELS,
    "--repair-from": MODELS,
    "--diff": first(files(GGUF, ".jinja", ".json"), _address),
    "--mmproj": files(GGUF),
    "--model-draft": files(GGUF),
    "--lora": files(GGUF, separators=","),
    "--control-vector": files(GGUF, separators=","),
    "convert source": FOLDER,
    "prepare source": files(GGUF),
    "quantize source": MODELS,
    "quantize output": first(choose(sources.quants), files(GGUF)),
    "quantize type_name": choose(sources.quants),
    # Files to read.
    "log": ANY_FILE,
    "--expect": JSON,
    "--baseline": JSON,
    "--messages": files(".json", ".txt"),
    "--tools": JSON,
    "--policy": TOML,
    "--config": TOML,
    "--import": TOML,
    "--export": TOML,
    "--chat-template": files(".jinja", ".json", GGUF, ".txt"),
    "--chat-template-file": files(".jinja", ".json", ".txt"),
    "--imatrix": files(GGUF, ".dat", ".imatrix"),
    "imatrix files": files(GGUF, ".dat", ".imatrix"),
    "imatrix --add": files(GGUF, ".dat", ".imatrix"),
    "imatrix --output": files(GGUF, ".dat"),
    "--tensor-type-file": files(".txt"),
    "--text": files(".txt", ".md", ".raw"),
    "--command": ANY_FILE,
    "--sums": first(ANY_FILE, _address),
    "--patch": JSON,
    "lint --against": FOLDER,
    "--against": ANY_FILE,
    "--llama-cpp": ANY_FILE,
    # Files to write.
    "--output": files(GGUF),
    "--patch-out": JSON,
    "--write-manifest": JSON,
    "--output-file": ANY_FILE,
    "--log": ANY_FILE,
    "--plot": files(".svg", ".png", ".html"),
    "--metrics": files(".prom"),
    "--resume": files(".jsonl", ".json"),
    "--join": files(GGUF),
    "--link-to": FOLDER,
    "--local-dir": FOLDER,
    # Rules.
    "rules name": choose(sources.rules),
    "--select": RULES,
    "--ignore": RULES,
    # Keys and what they may be.
    "key": _explained,
    "--flag": choose(sources.flags),
    "--raw": choose(sources.keys),
    "--keys": choose(sources.keys),
    "--delete": choose(sources.keys),
    "--set": _setting,
    "--set-file": _file_of(choose(KNOWN, end="="), ANY_FILE),
    "--copy": choose(several(sources.groups, sources.keys_of_other), ","),
    "--rename": equals(choose(sources.keys, end="="), _renamed),
    "--sampling": equals(choose(sources.sampling, end="="), lambda asked, name: (), separators=","),
    "--special": equals(choose(sources.special, end="="), sources.special_tokens),
    "--template-name": choose(sources.templates),
    "--conversation": choose(sources.conversations),
    "--symptom": choose(sources.symptoms),
    # Tensors.
    "--tensors": choose(sources.tensor_globs),
    "--tensor-type": equals(choose(sources.tensors, end="="), lambda asked, name: sources.tensor_types(asked)),
    "--include-weights": choose(sources.tensors),
    "--exclude-weights": choose(sources.tensors),
    "--override-kv": free("a key, a type and a value"),
    "--override-tensor": equals(choose(sources.tensors, end="="), lambda asked, name: ("CPU",)),
    # Types, builds, devices.
    "--cache-type": CACHE_TYPE,
    "kv-test --cache-type": choose(sources.cache_types, "/,"),
    "--quantize": choose(sources.quants),
    "mix --types": choose(sources.tensor_types, ","),
    "mix --target": choose(sources.quants),
    "mix --sensitivity": first(choose(these("auto", "measured", "usual")), JSON),
    "--save": ANY_FILE,
    "--least": NUMBER,
    "--output-tensor-type": choose(sources.tensor_types),
    "--token-embedding-type": choose(sources.tensor_types),
    "--pre": choose(sources.pre_tokenizers),
    "--build": choose(sources.builds),
    "--llama-cpp-python": choose(sources.llama_cpp_python),
    "--bandwidth": choose(sources.devices),
    "--vram": choose(these("auto", "none")),
    "--ram": choose(these("auto")),
    "--gpu-layers": choose(these("auto", "all")),
    "--spec-draft-ngl": choose(these("auto", "all")),
    "--parallel": choose(these("auto")),
    # What nobody can list.
    "--device": free("only the program knows its devices, and it would have to run"),
    "--mmproj-device": free("as --device"),
    "--spec-draft-device": free("as --device"),
    "--prune-layers": NUMBER,
    "--tensor-split": NUMBER,
    "--fit-target": NUMBER,
    "--rpc": free("addresses of other machines"),
    "--scheduler": free("addresses of other machines"),
    "--host": free("addresses of this machine"),
    "--lora-scaled": files(GGUF, separators=","),
    "--control-vector-scaled": files(GGUF, separators=","),
    "--alias": WORDS,
    "--api-key": free("a secret"),
    "--api-prefix": WORDS,
    "--image": WORDS,
    "--translate": WORDS,
    "--system": WORDS,
    "--chat-template-kwargs": free("an object in JSON"),
    "--error": WORDS,
    "--repo": WORDS,
    "--name": WORDS,
    "--quantized-by": WORDS,
    "--prefix": WORDS,
    "--sha256": free("a hash"),
    "--tokens": free("a stretch of numbers"),
    "--converter-arg": free("options of another program"),
    "--setup-arg": free("options of another program"),
    "--include": WORDS,
    "--exclude": WORDS,
}


def rows(command: str, param: click.Parameter) -> tuple[str, str]:
    """The rows that a parameter may have, its command's own one first."""
    name = next((n for n in getattr(param, "shown", param.opts) if n.startswith("--")), str(param.name))
    return f"{command} {name}", name


def of(command: str, param: click.Parameter) -> Completer | None:
    """The completer of a parameter; None where its type says all there is to say, or where a row is missing."""
    found = next((TABLE[row] for row in rows(command, param) if row in TABLE), None)
    if found is not None:
        return found
    row = getattr(getattr(param.type, "found", None), "option", None)
    return of_row(row) if row is not None else None


def of_row(row: object) -> Completer:
    """The completer of a row of `gguftool.run.options`."""
    from gguftool.run.options.row import Option

    if not isinstance(row, Option):
        return free("no row")
    named = TABLE.get(row.ours)
    if named is not None:
        return named
    if row.kind.values:
        return choose(these(*row.kind.values), "," if row.kind.many else "")
    return FOLDER if row.path == "folder" else ANY_FILE if row.path else NUMBER
