"""``fix --edit``: the scalar metadata in the user's editor; ``fix --import``, ``dump --export``: the same by file."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

import click

from gguftool.endings import deferred, start
from gguftool.errors import ChangedMeanwhile, ToolFailed, UsageError
from gguftool.records import dataclass
from gguftool.shell import gguftool, path_word

if TYPE_CHECKING:
    from gguftool.cli.options import Session
    from gguftool.edit.ops import Operation
    from gguftool.edit.toml import Given
    from gguftool.model import Model

_HOW = """
# Change values, add keys, remove lines: a key whose line has gone is deleted. Then save and leave the editor.
# A key that nobody knows names its type: "my.key" = { u32 = 5 }, "my.list" = { "[str]" = ["a", "b"] }.
"""


@dataclass(frozen=True, slots=True)
class Draft:
    """A text that was edited: as it was shown, as it is, and the file that holds it."""

    before: str
    text: str
    path: str

    def given(self) -> dict[str, Given]:
        """What it says.

        Raises:
            UsageError: it cannot be read.
        """
        from gguftool.edit.toml import from_toml

        return from_toml(self.text, self.path)

    def operations(self, model: Model) -> list[Operation]:
        """What makes the model as the text has it.

        Raises:
            ChangedMeanwhile: the model is no longer the one that was shown.
            UsageError: a value that is not possible.
        """
        from gguftool.edit.toml import from_toml, operations

        if exported(model) != self.before:
            raise ChangedMeanwhile(f"{model.name}: was changed while you edited its metadata")
        return operations(model, self.given(), from_toml(self.before, model.name))

    def kept(self, model: str) -> str:
        """Where the text is, when it could not be applied."""
        again = gguftool("fix", path_word(model), "--edit", "--import", path_word(self.path))
        return f"your text is kept in {self.path}; to go on with it: {again}"


def exported(model: Model) -> str:
    """The metadata as text, each key with its type and meaning."""
    from gguftool.edit.toml import to_toml

    return to_toml(model, _meaning)


def _meaning(key: str) -> str:
    from gguftool.lint.explain import explain

    try:
        found = explain(key)
    except UsageError:
        return ""
    readers = f" Read by {found.llama_cpp}." if found.llama_cpp else ""
    return " ".join(f"{found.meaning}{readers}".split())


def export(model: Model, path: str) -> None:
    """Write the metadata to a file; an older export is replaced, anything else is not."""
    from gguftool.edit.toml import BEGIN
    from gguftool.files.attributes import readers_of
    from gguftool.files.small import write_file

    local = [p for p in model.paths if os.path.exists(p)]
    text = exported(model)
    mine = BEGIN.encode()
    if local:
        write_file(path, text, mine=lambda begin: begin.startswith(mine), what="export", readers=readers_of(local))
    else:
        write_file(path, text, mine=lambda begin: begin.startswith(mine), what="export")


def imported(model: Model, path: str) -> list[Operation]:
    """What a file gives that the model has not; nothing is deleted.

    Raises:
        UsageError: the file cannot be read, or a value is not possible.
    """
    from gguftool.edit.fromfile import decode_text, read_file
    from gguftool.edit.toml import from_toml, operations

    return operations(model, from_toml(decode_text(read_file(path), path), path))


def edit(session: Session, model: Model, begin: str | None) -> Draft | None:
    """Let the user edit the metadata; the model should be closed meanwhile.

    A text that nobody changed is removed, whatever ends the editor; one that was changed stays, and where is said.

    Args:
        session: for questions.
        model: whose metadata is shown.
        begin: a file to begin with instead; a text that an earlier try has left is gone on with as it is.

    Returns:
        None when nothing was changed.

    Raises:
        ToolFailed: the editor cannot be started, or failed.
        UsageError: what was typed cannot be read; the message names the file that has it.
    """
    from gguftool.edit.fromfile import decode_text, read_file

    before = exported(model)
    name = model.name
    model.close()
    shown = before.replace("\n", _HOW, 1) if begin is None else decode_text(read_file(begin), begin)
    path = ""
    try:
        with deferred(done=False):
            path = _file(shown, begin)
        while True:
            _run(path)
            draft = Draft(before, _read(path), path)
            if draft.text == shown and begin is None:
                os.unlink(path)
                return None
            try:
                draft.given()
            except UsageError as error:
                if sys.stdin.isatty():
                    session.warn(str(error))
                    if click.confirm("edit again?", default=True, err=True):
                        continue
                raise UsageError(str(error), draft.kept(name)) from None
            return draft
    except BaseException as stop:
        changed = bool(path) and (path == begin or _read(path) != shown)
        if path and not changed:
            os.unlink(path)
        elif changed and isinstance(stop, ToolFailed):
            raise ToolFailed(str(stop), f"what it left is in {path}") from None
        elif changed and not isinstance(stop, UsageError):
            session.warn(Draft(before, "", path).kept(name))
        raise


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as f:
        return f.read()


_PREFIX = "gguftool-edit-"


def _file(shown: str, begin: str | None) -> str:
    """The file that is edited: one of ours with the text that is shown in it."""
    import tempfile

    from gguftool.files.small import kept_file, replace_own

    if begin is not None:
        folder, name = os.path.split(os.path.abspath(begin))
        if name.startswith(_PREFIX) and os.path.realpath(folder) == os.path.realpath(tempfile.gettempdir()):
            return begin
    path = kept_file(_PREFIX, ".toml")
    replace_own(path, shown)
    return path


def _run(path: str) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        argv = [*shlex.split(editor), path]
        # Where stdout is a file or a pipe, the editor still needs the terminal.
        child = start(argv, stdout=None if sys.stdout.isatty() else 2)
    except (OSError, ValueError) as error:
        raise ToolFailed(f"{editor}: cannot be started: {error}", "name an editor: EDITOR=nano") from None
    try:
        code = child.wait()
    except BaseException:
        child.kill()
        child.wait()
        raise
    if code:
        raise ToolFailed(f"{editor} ended with {code}: nothing was changed")
