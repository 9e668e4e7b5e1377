"""``gguftool plan`` of a repository or a folder with several quantisations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gguftool.errors import UsageError

if TYPE_CHECKING:
    from gguftool.api.glance import Glance
    from gguftool.cli.options import Session
    from gguftool.hub.repo import Collection
    from gguftool.run.wishes import Wishes

NOT_OF_MANY = {"measure": "--measure", "plot": "--plot"}


def table(session: Session, there: Collection, wishes: Wishes, options: Mapping[str, Any]) -> int:
    """Show every quantisation; the exit code says whether one of them fits."""
    from gguftool.api.glance import glance
    from gguftool.report import glance as report

    for name, shown in NOT_OF_MANY.items():
        if options[name]:
            raise UsageError(
                f"{there.spec}: {shown} is for one model, and here are {len(there.models)}",
                f"name one: {there.models[0].spec}",
            )
    status = session.status()

    def tell(done: int, every: int) -> None:
        status(f"reading headers: {done} of {every}" if done < every else "")

    found = glance(there, wishes, max_context=options["max_context"], build=options["build"], tell=tell)
    code = exit_code(found)
    if session.format == "json":
        session.write_json(ok=code == 0, body=report.json_body(found))
    else:
        session.out("\n".join(report.text(found, session.style)))
    return code


def exit_code(found: Glance) -> int:
    """0: one of them fits, or nobody said what memory there is; 5: none does; else why none can be used."""
    from gguftool.api.glance import OVER, UNKNOWN

    standings = {x.standing for x in found.models}
    if min(standings) <= UNKNOWN or (OVER in standings and not found.named):
        return 0
    if OVER in standings:
        return 5
    return max([1, *(x.error.exit_code for x in found.models if x.error is not None)])
