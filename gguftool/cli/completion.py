"""``gguftool completion``: the script that teaches a shell our commands and options, and how it is put in its place."""

from __future__ import annotations

import os

import click

from gguftool.cli.options import Session, command, option, pass_session

LINES = {
    "bash": (
        "mkdir -p ~/.local/share/bash-completion/completions",
        "gguftool completion bash > ~/.local/share/bash-completion/completions/gguftool",
        "# without the package bash-completion: a line in ~/.bashrc",
        'eval "$(gguftool completion bash)"',
    ),
    "zsh": (
        "mkdir -p ~/.zfunc",
        "gguftool completion zsh > ~/.zfunc/_gguftool",
        "# once: a line in ~/.zshrc",
        "fpath+=(~/.zfunc); autoload -Uz compinit; compinit",
    ),
    "fish": (
        "mkdir -p ~/.config/fish/completions",
        "gguftool completion fish > ~/.config/fish/completions/gguftool.fish",
        "# or without a file: a line in ~/.config/fish/config.fish",
        "gguftool completion fish | source",
    ),
}
"""What to type: where a shell looks for a script, and a line for the file that it reads at its start."""


def lines(shell: str) -> list[str]:
    """What to type, for one shell."""
    return [f"# {shell}", *LINES[shell]]


@command(
    examples="""
    gguftool completion                 how to install it in this shell and the others
    gguftool completion bash --install  only for bash
    gguftool completion zsh > ~/.zfunc/_gguftool
    """
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), required=False)
@option("--install", is_flag=True, help="Print the lines to type for that shell, not the script.")
@pass_session
def completion(session: Session, shell: str | None, install: bool) -> None:
    """Print the completion script for a shell; without one, how to install it.

    It completes commands and options, and their values: rules, keys and
    tensors of the model that the line names, types, builds, files.
    """
    from gguftool.cli.complete.shells import SHELLS
    from gguftool.cli.group import gguftool

    if shell is not None and not install:
        session.out(SHELLS[shell](gguftool).source(), whole=True)
        return
    mine = os.path.basename(os.environ.get("SHELL", ""))
    for name in [shell] if shell else sorted(SHELLS, key=lambda name: name != mine):
        session.out("\n".join(lines(name)), whole=True)
