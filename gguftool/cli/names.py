"""One meaning, one name; and the other words that people write for it.

An option made with `gguftool.cli.options.option` shows one name and answers to the others of this table as well: those
of llama.cpp, former names of ours, and those of kindred programs. What only one command has stands there, as
``aliases``. A word that a command does not know is looked up here before anybody guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "--ctx": ("-c", "--ctx-size", "--context-length", "--context-size", "--context", "--n-ctx", "--num-ctx"),
    "--cache-type": ("--kv-cache-type", "--cache-types", "--kv-type", "--kv-cache-dtype"),
    "--dry-run": ("-n", "--preview"),
    "--yes": ("-y", "--assume-yes"),
    "--output": ("-o", "--out", "--outfile", "--output-file"),
    # Which llama.cpp to take: its folder or a program of it, in every command that starts one.
    "--llama-cpp": ("--server", "--llama-cpp-dir", "--llama-cpp-path", "--llamacpp"),
    "--threads": ("-t", "--n-threads"),
    "--jobs": ("-j",),
    "--format": ("--output-format",),
    "--max-size": ("--split-max-size",),
    "--max-tensors": ("--split-max-tensors",),
    "--metadata-first": ("--no-tensor-first-split",),
    "--chat-template": ("--chat-template-file",),
    "--from": ("--copy-from",),
    "--copy": ("--copy-keys", "--keys"),
    "--import": ("--import-toml", "--from-toml"),
    "--export": ("--export-toml", "--to-toml"),
    "--delete": ("--remove", "--unset"),
    # Consent and preview under names that say more: the common words do as well.
    "--allow-foreign": ("-y", "--yes"),
    "--allow-requantize": ("-y", "--yes"),
    "--force": ("-y", "--yes"),
    "--overwrite": ("--force",),
    "--print": ("-n", "--dry-run"),
    "--rope-freq-base": ("--rope-base", "--rope-theta"),
    "--rope-scaling": ("--rope-scaling-type",),
    "--rope-scale-factor": ("--rope-scale", "--rope-factor"),
}
"""Our name, and what else is taken for it, where a command has the notion."""

HALVES: Mapping[str, tuple[str, ...]] = {
    "k": ("-ctk", "--cache-type-k", "--ctk", "--type-k"),
    "v": ("-ctv", "--cache-type-v", "--ctv", "--type-v"),
}
"""What llama.cpp calls the two parts of ``--cache-type K/V``."""


def others(names: Iterable[str]) -> tuple[str, ...]:
    """What an option that bears ``names`` answers to besides."""
    return tuple(word for name in names for word in SPELLINGS.get(name, ()))


def as_known(args: Sequence[str], known: Callable[[str], bool], *, model: bool) -> list[str]:
    """The words of a command line in the form our parser takes.

    ``--ctx_size`` is ``--ctx-size``, as for llama.cpp; ``-m FILE`` is the MODEL, for a command that takes one.

    Args:
        args: as typed, without the command's name.
        known: whether the command has an option of that name.
        model: whether its first argument is a model.
    """
    out: list[str] = []
    words = iter(args)
    for word in words:
        if word == "--":
            return [*out, word, *words]
        name, equals, value = word.partition("=")
        if word in ("-m", "--model") and model and not known(word):
            continue
        if name == "--model" and equals and model and not known(name):
            out.append(value)
            continue
        plain = name.replace("_", "-")
        out.append(plain + equals + value if word.startswith("--") and "_" in name and known(plain) else word)
    return out


def of_llama_cpp(word: str) -> bool:
    """Whether ``word`` is an option of llama-server, spelled as there."""
    from gguftool.run.capabilities import known

    return word in known().by_name


def same_notion(word: str) -> frozenset[str]:
    """All names of what ``word`` is for: ours, llama.cpp's, itself. A wrong option is what it was meant to be."""
    from gguftool.programs import SERVER
    from gguftool.run.explained import explain_flag

    found = explain_flag(word)
    names = {word, *(found.names if not found.programs or SERVER in found.programs else ())}
    for name, words in SPELLINGS.items():
        if not names.isdisjoint((name, *words)):
            names |= {name, *words}
    return frozenset(names)


def resembling(word: str, spelled: Mapping[str, str]) -> list[str]:
    """Up to three options of a command that ``word`` may be a slip for.

    Args:
        word: an option that the command does not have, with its dashes.
        spelled: every spelling the command takes, and the name it shows for it.
    """
    bare: dict[str, str] = {}
    for name, shown in spelled.items():
        bare.setdefault(name.lstrip("-"), shown)
    plain = word.lstrip("-").lower().replace("_", "-")
    from gguftool.near import near_names

    near = [plain] if plain in bare else near_names(plain, [name for name in bare if len(name) > 1], n=5)
    return list(dict.fromkeys(bare[name] for name in near))[:3]
