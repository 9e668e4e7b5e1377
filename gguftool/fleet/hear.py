"""What happens in folders, heard from the system through watchfiles; what is not heard is found by looking."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from gguftool.errors import ToolFailed

EXTRA = "pip install 'gguftool[watch]'"
DEBOUNCE = 400
"""Milliseconds that events are gathered."""
STEP = 50
"""Milliseconds without an event after which what was gathered is handed on."""
LONGEST = 5.0
"""Seconds after which is looked whether the folders are still the same ones."""
DEAF = 10.0
"""Seconds between two looks through everything where nothing can be heard."""
ABSENT = 0.5
"""Seconds after which a folder that is not there is looked for again."""


class Heard(NamedTuple):
    """What happened: something to these paths; ``lost``: and to others perhaps."""

    paths: frozenset[str] = frozenset()
    lost: bool = False


class Ears(Protocol):
    """Something that hears what happens in folders."""

    def __call__(self, seconds: float) -> Heard | None:
        """What happened since, waiting for it at most so long; None: nothing will any more."""

    def close(self) -> None:
        """Hear no more."""


def check_extra() -> None:
    """Before any work: whether the library is here.

    Raises:
        ToolFailed: it is not.
    """
    try:
        import watchfiles
    except ImportError:
        raise ToolFailed("--watch needs watchfiles, which is not installed", EXTRA) from None
    del watchfiles


class Notified:
    """Events of the kernel (inotify on Linux) below folders, which may go and come again.

    Args:
        roots: the folders.
        trouble: gets a sentence when nothing can be heard.
    """

    def __init__(self, roots: Sequence[str], trouble: Callable[[str], None]) -> None:
        self._roots = {os.path.abspath(root): root for root in roots}
        self._trouble = trouble
        self._places: dict[str, tuple[int, int] | None] = {}
        self._notify: Any = None
        self._deaf = False

    def __call__(self, seconds: float) -> Heard | None:
        """What happened since, waiting at most so long."""
        lost = self._renew()
        if self._notify is None:
            time.sleep(min(seconds, DEAF if self._deaf else ABSENT))
            return Heard(lost=True)
        absent = None in self._places.values()
        wait = 0.001 if lost else min(seconds, ABSENT if absent else LONGEST)
        try:
            got = self._notify.watch(DEBOUNCE, STEP, max(1, int(wait * 1000)), None)
        except RuntimeError:
            # A name that is no text, or whatever else its thread cannot go on with: it begins anew.
            self.close()
            return Heard(lost=True)
        if got == "signal":
            raise KeyboardInterrupt
        paths = frozenset(map(self._named, (path for _, path in got))) if isinstance(got, set) else frozenset[str]()
        return Heard(paths, lost)

    def close(self) -> None:
        """Hear no more."""
        if self._notify is not None:
            self._notify.close()
            self._notify = None
        self._places = {}

    def _renew(self) -> bool:
        """Listen anew when a folder is no longer the one that was listened to; whether something was missed."""
        places = {root: _place(root) for root in self._roots}
        if places == self._places and (self._notify is not None or not any(places.values()) or self._deaf):
            return False
        self.close()
        self._places = places
        here = [root for root, place in places.items() if place is not None]
        if here:
            self._listen(here)
        return True

    def _listen(self, roots: list[str]) -> None:
        from watchfiles._rust_notify import RustNotify

        try:
            # No polling, and what may not be read is passed over.
            self._notify = RustNotify(roots, False, False, 300, True, True)
            self._deaf = False
        except (OSError, RuntimeError) as error:
            if not self._deaf and all(map(os.path.isdir, roots)):
                self._deaf = True
                self._trouble(
                    f"events of these folders cannot be had ({error}): they are looked through every {DEAF:.0f} seconds"
                )

    def _named(self, path: str) -> str:
        """A path as it was named, not as the system spells it."""
        for whole, root in self._roots.items():
            if path == whole or path.startswith(os.path.join(whole, "")):
                return os.path.join(root, path[len(os.path.join(whole, "")) :]) if path != whole else root
        return path


def _place(root: str) -> tuple[int, int] | None:
    try:
        found = os.stat(root)
    except OSError:
        return None
    return found.st_dev, found.st_ino
