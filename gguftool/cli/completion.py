"""``gguftool completion``: the script that teaches a shell our commands and options."""

from __future__ import annotations

import click

from gguftool.cli.options import Session, command, pass_session

NO_BLANK = "[[ $value == *= ]] && compopt -o nospace"


@command(
    examples="""
    gguftool completion bash > ~/.local/share/bash-completion/completions/gguftool
    gguftool completion zsh > ~/.zfunc/_gguftool
    gguftool completion fish > ~/.config/fish/completions/gguftool.fish
    """
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@pass_session
def completion(session: Session, shell: str) -> None:
    """Print the completion script for a shell.

    Put it where your shell looks for completions, and open a new shell.
    """
    from click.shell_completion import get_completion_class

    from gguftool.cli.group import gguftool

    writer = get_completion_class(shell)
    if writer is None:
        raise click.UsageError(f"click knows no completion for {shell}")
    script = writer(gguftool, {}, "gguftool", "_GGUFTOOL_COMPLETE").source()
    # Bash puts a blank behind what it completed; KEY= is not yet a word.
    session.out(script.replace("COMPREPLY+=($value)", f"COMPREPLY+=($value)\n            {NO_BLANK}"))
