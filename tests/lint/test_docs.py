"""The pages on lint: generated from the rules, examples that work, options that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gguftool.lint.catalogue import described, of_family
from gguftool.lint.config import read_config
from gguftool.lint.policy import Policy, read_policy
from gguftool.lint.rules import FAMILIES, catalogue
from tests.lint.samples import ready

ROOT = Path(__file__).resolve().parents[2]
LINT = (ROOT / "docs" / "lint.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", LINT, re.S)


def test_rules_page_has_every_rule() -> None:
    page = (ROOT / "docs" / "rules.md").read_text()
    assert all(f"### {r.id}\n" in page for r in catalogue())


def test_the_catalogue_that_is_shipped_is_that_of_the_rules() -> None:
    found = list(described().values())
    names = ("id", "family", "severity", "scope", "since", "changes_run", "text", "title", "sections")
    assert [[getattr(r, name) for name in names] for r in found] == [
        [getattr(r, name) for name in names] for r in catalogue()
    ]
    assert all(of_family(name) == tuple(r for r in found if r.family == name) for name in FAMILIES)
    assert list(dict.fromkeys(r.family for r in found)) == list(FAMILIES)


def test_configuration_of_the_page_is_valid(tmp_path: Path) -> None:
    config, policy = blocks("toml")
    path = tmp_path / "gguftool.toml"
    path.write_text(config)
    found = read_config(path)
    assert (found.fail_on, found.context_length, found.cache_type) == ("error", 32768, "q8_0")
    path.write_text(policy)
    said = read_policy(path)
    # the page shows every demand there is
    assert all(getattr(said, name) for name in Policy.__dataclass_fields__ if name != "path")


def test_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    ready().write(tmp_path / "model.gguf")
    (code,) = blocks("python")
    exec(compile(code, "docs/lint.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[-1] in ("loads", "warns")


def test_options_of_the_pages_exist() -> None:
    from gguftool.cli.lint import lint

    known = {name for param in lint.params for name in param.opts} | {"--help"}
    for line in re.findall(r"^(?:\$ )?gguftool lint (.*)$", LINT, re.M):
        for option in re.findall(r"(--[a-z-]+)", line):
            assert option in known, option
    for option in re.findall(r"`(--[a-z-]+)", LINT):
        assert option in known, option


@pytest.mark.parametrize("rule", catalogue(), ids=lambda r: r.id)
def test_commands_in_the_documentation_exist(rule) -> None:  # type: ignore[no-untyped-def]
    """`gguftool …` in a rule's text names a command and options that are there."""
    from importlib import import_module

    from gguftool.cli.group import TABLE

    table = {entry.name: entry.module for entry in TABLE}
    for command, rest in re.findall(r"`gguftool ([a-z-]+)([^`]*)`", rule.text.replace("\n", " ")):
        assert command in table, command
        try:
            module = import_module(f"gguftool.cli.{table[command]}")
        except ModuleNotFoundError:
            continue  # another command's own tests tell that it is missing
        known = {name for param in getattr(module, table[command]).params for name in param.opts}
        for option in re.findall(r"(?<=\s)(--[a-z-]+)", rest):
            assert option in known, f"{command} {option}"
