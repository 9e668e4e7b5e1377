"""How every command opens its MODEL: one call for a path, a shard, a folder or an address, and what to say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gguftool.cli.options import Session
    from gguftool.model import Model
    from gguftool.model.headers import Headers


def open_for(
    session: Session,
    spec: str,
    *,
    strict: bool = True,
    beside: bool = False,
    until: str | None = None,
    known: Headers | None = None,
) -> Model:
    """The model that ``spec`` names, opened; files that only their content ties to it are told.

    Args:
        session: where notes go.
        spec: a path, any shard, a folder or an address, see `gguftool.hub.open_any`.
        strict: raise at the first fault in a header or at a missing shard.
        beside: say that a projector lies beside the model.
        until: over the network, read no further than this key.
        known: headers of files here that need not be read again.
    """
    from gguftool.hub import open_any

    model = open_any(spec, strict=strict, until=until, known=known)
    tell(session, model)
    if beside:
        tell_projector(session, model)
    return model


def tell(session: Session, model: Model) -> None:
    """Every file that was taken by what is in it: a mixture would look the same."""
    for path in model.by_content:
        [no] = [part.no for part in model.parts if part.name == path]
        gone = f"{model.shard_names[no]} is missing; " if model.shard_names else ""
        text = f"taken for shard {no + 1} of {model.shard_count} by what is in it; its name does not say so"
        session.warn(f"{gone}{path}: {text}")


def tell_projector(session: Session, model: Model) -> None:
    """A multimodal projector that lies beside the model does nothing until it is named."""
    from gguftool.model.folder import projectors_beside
    from gguftool.model.role import role

    # Beside most models lies nothing, and which projector fits is another room's question.
    if role(model) != "model" or not projectors_beside(model)[0]:
        return
    from gguftool.report.text import safe
    from gguftool.run.lying import note

    if text := note(model):
        session.note(f"note: {safe(text)}")
