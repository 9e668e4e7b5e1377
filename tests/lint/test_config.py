"""Settings of lint in gguftool.toml and pyproject.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool.errors import UsageError
from gguftool.lint.config import find_config
from tests.build import llama


@pytest.fixture
def rules(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Lint a model that lacks the two records, from a folder; the rules that fired, or what was said at exit code 2."""
    path = llama().write(tmp_path / "m.gguf")

    def run(folder: Path, *options: str) -> list[str] | str:
        folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(folder)
        result = cli("lint", path, "--format", "json", *options)
        if result.code == 2:
            return str(result.err)
        return [f["rule"] for file in result.json["files"] for f in file["findings"]]

    return run


def test_config_from_the_working_directory(rules, tmp_path: Path) -> None:
    (tmp_path / "gguftool.toml").write_text('[lint]\nignore = ["deploy"]\ncontext-length = 4096\n')
    inner = tmp_path / "a" / "b"
    assert rules(inner) == []
    assert len(rules(inner, "--no-config")) == 2
    # the command line wins over the file
    assert rules(inner, "--select", "context-length-too-small")


def test_config_by_the_name_of_the_command_line(tmp_path: Path) -> None:
    own = tmp_path / "gguftool.toml"
    own.write_text("ctx = 4096\n")
    assert find_config(tmp_path).context_length == 4096
    own.write_text("ctx = 4096\ncontext-length = 4096\n")
    with pytest.raises(UsageError, match="twice"):
        find_config(tmp_path)


def test_config_never_from_the_folder_of_the_model(rules, tmp_path: Path) -> None:
    (tmp_path / "gguftool.toml").write_text('[lint]\nignore = ["deploy"]\n')
    assert len(rules(tmp_path.parent / (tmp_path.name + "-elsewhere"))) == 2


def test_config_in_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.gguftool.lint]\nselect = "rope"\nfail-on = "error"\n')
    config = find_config(tmp_path)
    assert (config.select, config.fail_on) == (("rope",), "error")
    # a pyproject.toml without our table does not end the search
    inner = tmp_path / "x"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert find_config(inner).select == ("rope",)


@pytest.mark.parametrize(("name", "heading"), [("gguftool.toml", ""), ("pyproject.toml", "[tool.gguftool]\n")])
def test_config_without_its_heading(name: str, heading: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(heading + 'ignore = ["deploy"]\n')
    assert find_config(tmp_path).ignore == ("deploy",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ignor = ['rope']\n", "did you mean ignore?"),
        ("[lint]\nselct = ['rope']\n", "did you mean select?"),
        ("[lint]\nselect = 5\n", "must be a list"),
        ("[lint]\nfail-on = 'often'\n", "must be one of"),
        ("[lint]\ncontext-length = '4k'\n", "whole number"),
        ("[lint\n", "is no TOML"),
        ("lint = 3\n", "must be a table"),
    ],
)
def test_bad_config(text: str, said: str, rules, tmp_path: Path) -> None:
    (tmp_path / "gguftool.toml").write_text(text)
    assert said in rules(tmp_path)


def test_config_paths_are_relative_to_it(rules, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('architectures = ["qwen2"]\n')
    (tmp_path / "gguftool.toml").write_text('[lint]\npolicy = "policy.toml"\nselect = ["safety"]\n')
    assert rules(tmp_path / "a") == ["policy-architecture"]
