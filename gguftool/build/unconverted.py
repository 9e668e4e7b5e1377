"""Why a conversion failed, as an error: what the converter said, what that means, what helps."""

from __future__ import annotations

from gguftool.build.folder.look import Folder
from gguftool.build.process import Ended
from gguftool.errors import GgufToolError, NoRoom, ToolFailed
from gguftool.facts.unconverted import fault, meaning
from gguftool.regex import regex
from gguftool.shell import path_word

_NO_ROOM = regex(r"No space left|Errno 28|Disk quota exceeded")
_SIGNALS = {
    -9: ("the converter was killed, most likely for lack of memory", "--converter-arg=--use-temp-file"),
    -7: ("a file that the converter had mapped became shorter, or its disk failed", "look at the disk, then try again"),
    -11: ("the converter crashed in a library", "make its environment anew: gguftool convert --setup"),
    -15: ("the converter was told to end", "start it again"),
}
"""Ends by a signal, by the exit code of the child."""


def explain(ended: Ended, folder: Folder, log: str | None) -> GgufToolError:
    """What the converter's failure means.

    Args:
        ended: how it ended, with its last lines.
        folder: what was to be converted.
        log: file with all it said, to be named.
    """
    where = f"; its log: {log}" if log else ""
    found = fault(ended.tail)
    if _NO_ROOM.search(found.said) or (not found.error and _NO_ROOM.search("\n".join(ended.tail))):
        return NoRoom("the converter ran out of disk", "free some space, or write to another disk")
    if (signal := _SIGNALS.get(ended.code if ended.code < 0 else 128 - ended.code)) is not None:
        return ToolFailed(f"{signal[0]}{where}", signal[1])
    shown = found.shown[:200]
    count = folder.config.text.get("num_hidden_layers")
    if (known := meaning(found, count if isinstance(count, int) else None)) is not None:
        hint = known.way.replace("FOLDER", path_word(folder.path))
        return ToolFailed(f"{folder.path}: {known.cause}: {shown}{where}", hint)
    said = shown or "it said nothing"
    return ToolFailed(f"the converter failed ({ended.reason}): {said}{where}", "--log FILE keeps all it says")
