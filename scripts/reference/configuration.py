"""docs/reference/configuration.md: the keys of gguftool.toml and of a policy, out of the code that reads them."""

from __future__ import annotations

import dataclasses

from kept import DOCS, keep, table

PAGE = DOCS / "reference" / "configuration.md"
HEAD = """# Configuration

Made from what the code reads by `./dev docs`; a test keeps it in step.

`gguftool.toml`, or `[tool.gguftool]` of `pyproject.toml`, is looked for from the working directory upward, never in
the folder of a model: a download must not bring its own rules. `--config FILE` names another, `--no-config` takes none.
A name that does not exist is an error (exit code 2). `gguftool lint --show-settings` tells what holds, and where it
comes from. [Lint](../lint.md) has an example.

"""
KINDS = {
    "names": "list of rules and families",
    "patterns": "list of patterns of files and folders",
    "number": "whole number of tokens",
    "text": "text",
    "file": "path, from the folder of this file",
    "table": "pattern of files = list of rules and families",
}
MEANING = {
    "lint.select": "only these",
    "lint.ignore": "all but these",
    "lint.fail-on": "from which severity on the exit code is 1",
    "lint.ctx": "the context that is wanted, as `--ctx`",
    "lint.context-length": "the same",
    "lint.cache-type": "the cache type that is wanted, as `--cache-type`: `q8_0`, `q8_0/q4_0`",
    "lint.policy": "what every model must satisfy, see below",
    "lint.baseline": "findings that are known, as `--baseline`",
    "lint.per-file-ignores": "left out for some files",
    "scan.include": "only these files",
    "scan.exclude": "not these",
    "scan.fail-on": "as above; `broken`: only models that are not whole",
}
POLICY = {
    "architectures": "allowed values of general.architecture",
    "roles": "allowed roles of the file ([files](../files.md))",
    "max_size": "of all files of a model together: `80GB`, `80GiB` or bytes",
    "max_context": "largest context a file may state, in tokens",
    "min_context": "smallest",
    "file_types": "allowed values of general.file_type, by name: `Q4_K_M`",
    "cache_types": "allowed in `{arch}.kv_cache_type`",
    "required_keys": "keys that must be there; the prefix of the architecture may be left out",
    "forbidden_keys": "keys that must not be there",
    "licenses": "allowed values of general.license",
    "chat_template_sha256": "allowed templates, by the sha256 of their UTF-8 text",
    "values": "a table: keys with exactly this value",
}


def page() -> str:
    """The page as it should be."""
    from gguftool.lint import config
    from gguftool.lint.policy import Policy

    levels = {"level": config.FAIL_ON, "scan level": config.SCAN_FAIL_ON}
    parts = [HEAD]
    for title, kinds in config._SECTIONS.items():
        rows = [
            (
                f"`{name}`",
                KINDS.get(kind) or ", ".join(f"`{level}`" for level in levels[kind]),
                MEANING[f"{title}.{name}"],
            )
            for name, kind in kinds.items()
        ]
        parts.append(f"## [{title}]\n\n" + table("key", "value", "meaning", rows=rows) + "\n")
    parts.append("The heading `[lint]` may be left out. `scan` takes the rules of `[lint]` as well.\n\n")
    fields = [f for f in dataclasses.fields(Policy) if f.name != "path"]
    shown = [(f"`{f.name}`", _kind(f.name, str(f.type)), POLICY[f.name]) for f in fields]
    parts.append(
        "## A policy\n\nThe file of `lint --policy`, TOML as well:\n\n" + table("key", "value", "meaning", rows=shown)
    )
    return "".join(parts)


def _kind(name: str, annotation: str) -> str:
    if name.endswith("_context"):
        return KINDS["number"]
    return "list of texts" if "tuple" in annotation else "table" if "Mapping" in annotation else "size"


if __name__ == "__main__":
    keep({PAGE: page()})
