"""Every command explains itself, and the group finds its way."""

from __future__ import annotations

import inspect

import click
import pytest

from gguftool.cli.group import TABLE, gguftool
from gguftool.cli.options import Command
from gguftool.version import __version__

COMMANDS = gguftool.list_commands(click.Context(gguftool))


def test_the_table_names_every_command_once():
    names = [entry.name for entry in TABLE]
    assert len(names) == len(set(names))
    assert [entry.section for entry in TABLE] == sorted(
        (entry.section for entry in TABLE), key=["Inspect", "Check", "Repair", "Build", "Run"].index
    )


def test_group_help_lists_the_commands_there_are(cli):
    result = cli("--help")
    assert result.code == 0
    listed = [line.split()[0] for line in result.out.splitlines() if line.startswith("  ") and line.strip()]
    assert [name for name in listed if name in COMMANDS] == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_command_has_help_with_an_example(cli, name: str):
    command = gguftool.get_command(click.Context(gguftool), name)
    assert isinstance(command, Command)
    assert command.help
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden:
            assert param.help, f"{name} {param.opts[-1]} has no help"
            # click would clean it, and is not let.
            assert param.help == inspect.cleandoc(param.help)
    examples = [line.strip() for line in command.examples.splitlines() if line.strip()]
    assert any(line.startswith(f"gguftool {name}") for line in examples)
    shown = cli(name, "--help")
    assert shown.code == 0
    assert all(line in shown.out for line in examples)
    assert shown.out == cli(name, "-h").out


@pytest.mark.parametrize("name", COMMANDS)
def test_unknown_option_is_a_usage_error(cli, name: str):
    result = cli(name, "--no-such-option")
    assert result.code == 2
    assert "--no-such-option" in result.err
    assert result.err.endswith(f"hint: see `gguftool {name} --help`\n")
    assert result.out == ""


def test_version(cli, program):
    for result in (program("--version"), cli("--version"), cli("-q", "--version")):
        assert (result.code, result.out) == (0, f"gguftool {__version__}\n")


def test_unknown_command_names_the_nearest(cli):
    result = cli("completoin", "bash")
    assert result.code == 2
    assert "There is no command 'completoin'. Did you mean `gguftool completion bash`" in result.err
    assert result.out == ""


def test_unknown_command_with_nothing_near(cli):
    result = cli("qqqqqq")
    assert result.code == 2
    assert "Did you mean" not in result.err


def test_no_arguments_shows_the_help_and_is_a_usage_error(cli):
    result = cli()
    assert result.code == 2
    assert "Usage: gguftool" in result.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_calls_us_back(cli, shell: str):
    result = cli("completion", shell)
    assert result.code == 0
    assert "_GGUFTOOL_COMPLETE" in result.out


def test_completion_completes_commands(program):
    result = program("gguftool compl", env={"_GGUFTOOL_COMPLETE": "bash_complete"})
    assert result.code == 0
    assert result.out.split() == ["wcompletion"]
