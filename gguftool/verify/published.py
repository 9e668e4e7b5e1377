"""What the network says that files must be: the Hub's own records, or a list on a web server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gguftool.verify.expect import Expectation
from gguftool.verify.manifest import Entry, parse


def published(name: str, paths: Sequence[str]) -> Iterator[tuple[str, Expectation]]:
    """Path and statement of each file that is known there.

    Args:
        name: ``hf://owner/repo`` or the address of a list.
        paths: the files.

    Raises:
        ToolFailed: the network or the server failed.
    """
    from gguftool.hub.api import hub_records
    from gguftool.hub.remote import is_list, text

    if is_list(name):
        listed = parse(text(name), name)
        for path in paths:
            if (found := listed.find(path)) is not None:
                yield path, Expectation(name, found)
        return
    for path, record in hub_records(name, paths).items():
        yield path, Expectation(f"the Hub ({name})", Entry(record.path, record.sha256, record.size))
