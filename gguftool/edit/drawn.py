"""What operations make of a file, before anybody asks how it gets onto a disk; the file may lie anywhere."""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.brief import short_repr
from gguftool.edit.far import too_far
from gguftool.edit.fitted import Fit
from gguftool.edit.forecast import Forecast
from gguftool.edit.layout import fit
from gguftool.edit.ops import Front, Operation, Realign, Rename, Repack, Set, apply
from gguftool.edit.texts import refuse_texts
from gguftool.edit.whole import editable
from gguftool.errors import Refused, UsageError
from gguftool.format.header import Header, align
from gguftool.format.types import DEFAULT_ALIGNMENT
from gguftool.model import Model
from gguftool.model.datastart import misplaced_start, misplaced_words
from gguftool.model.headers import Headers
from gguftool.model.shards import split_keys
from gguftool.records import dataclass, replace
from gguftool.shell import gguftool, path_word, shell
from gguftool.source import Source


@dataclass(frozen=True, slots=True)
class Drawn:
    """What operations make of a file, whoever writes it: the new header, its layout, and what llama.cpp says of it."""

    new: Header
    fit: Fit
    forecast: Forecast

    __repr__ = short_repr


def draw(
    named: str,
    old: Header,
    front: bytes,
    size: int,
    ops: Sequence[Operation],
    *,
    force: bool = False,
    harm: str = "refuse",
    model: Model | None = None,
    known: Headers | None = None,
) -> Drawn:
    """Work out the new file.

    Args:
        named: what messages call the file.
        old: its header, as `front_of` gives it.
        front: its bytes in front of the data; more may stand behind them.
        size: its bytes in all.
        ops: what to change.
        force: as for `gguftool.edit.plan.plan_edit`.
        harm: likewise.
        model: the model, where it is open already and stays so.
        known: what is known of the file.

    Raises:
        UsageError, Refused: as `gguftool.edit.plan.plan_edit`.
    """
    new = stepped(old, ops, force=force, harm=harm)
    laid_out = fit(old, new, ops, front, size)
    _refuse_misplaced(named, old, ops)
    read = replace(old, data_offset=align(old.end, old.alignment))
    planned = replace(new, data_offset=len(laid_out.front))
    forecast = Forecast(named, read, planned, laid_out.new_size, model, known or Headers())
    if harm == "refuse":
        _refuse_harm(forecast, ops)
    return Drawn(new, laid_out, forecast)


def stepped(old: Header, ops: Sequence[Operation], *, force: bool = False, harm: str = "refuse") -> Header:
    """The header after operations, refused where the headers alone tell that it must be.

    Args:
        old: a header read without fatal problems.
        ops: what to change.
        force: as for `gguftool.edit.plan.plan_edit`.
        harm: likewise.

    Raises:
        UsageError, Refused: an operation that is not possible, or that would make the file contradict itself.
    """
    refuse_texts(ops, old, force=force, nul=harm == "allow")
    new = apply(ops, old, force=force)
    _guard(old, new, ops, force)
    return new


def _refuse_harm(forecast: Forecast, ops: Sequence[Operation]) -> None:
    """The best knowledge there is, asked where the damage would be done."""
    broken = forecast.harm
    if broken is None:
        return
    hint = "it is done all the same with --yes (in Python: harm='allow')"
    renamed = next((op for op in ops if isinstance(op, Set) and op.key == "general.architecture"), None)
    was = forecast.old.get("general.architecture")
    if renamed is not None and was is not None:
        from gguftool.edit.spelled import command

        along = shell(["--rename", f"{was.value}.*={renamed.value}.*"])
        hint = f"its keys are taken along by: {command(ops, forecast.path, forecast.old)} {along}; {hint}"
    raise Refused(f"{forecast.path}: {broken}", hint)


def _refuse_misplaced(named: str, old: Header, ops: Sequence[Operation]) -> None:
    """Only an edit that lays the data out anew can take it from where it really starts."""
    if old.data_offset == align(old.end, old.alignment) or any(isinstance(op, (Repack, Realign)) for op in ops):
        return
    read = replace(old, data_offset=align(old.end, old.alignment))
    mend = gguftool("fix", path_word(named), "--realign", str(old.alignment))
    raise Refused(f"{named}: {misplaced_words(read, old.data_offset)}", f"mend that first: {mend}")


def front_of(source: Source, named: str, known: Headers | None = None) -> tuple[Header, bytes]:
    """The header, and bytes of the file, those in front of its data at least.

    ``data_offset`` of the header is where the data really starts, not where readers look for it.

    Args:
        source: the file.
        named: what messages call it.
        known: headers that need not be read again.

    Raises:
        FormatError: it cannot be read to the end of its header.
        Refused: what stands in front of its data is more than is held in memory.
    """
    header = editable(source, named, known)
    start = misplaced_start(source, header)
    if start is not None:
        header = replace(header, data_offset=start)
    if why := too_far(header.data_offset, header.alignment):
        raise Refused(f"{named}: {why}")
    return header, _as_read(header) or source.read_at(0, header.data_offset)


def _as_read(header: Header) -> bytes:
    """The bytes that the header was read from, where the data begins behind them or in them; else none."""
    whole = header.tensors[-1].buffer.obj if header.tensors else None
    if not isinstance(whole, bytes) or not header.fields or header.fields[0].buffer.obj is not whole:
        return b""
    return whole if header.data_offset <= len(whole) else b""


def _guard(old: Header, new: Header, ops: Sequence[Operation], force: bool) -> None:
    """Edits that would make the file contradict itself."""
    if split_keys(old) is not None and not force:
        if any(isinstance(op, Front) for op in ops) and split_keys(new) != split_keys(old):
            raise Refused("the patch changes the split.* keys, which must agree in all files of the set")
        for op in ops:
            key = getattr(op, "key", getattr(op, "old", ""))
            keys = (key, op.new) if isinstance(op, Rename) else (key,)
            if any(k.startswith("split.") for k in keys):
                raise Refused(
                    f"{key}: the split.* keys say which shard this is, and must agree in all files of the set",
                    "join the set with `gguftool merge`, or rename shards with `gguftool verify --repair-names`",
                )
            if isinstance(op, (Repack, Realign)):
                raise Refused("a shard set cannot be laid out anew file by file", "join it with `gguftool merge` first")
    stated = _stated_alignment(new)
    if stated != _stated_alignment(old) and stated != new.alignment and not force:
        raise UsageError(
            f"general.alignment says where every tensor stands; {stated} would contradict the layout",
            "lay the data out anew: --realign N",
        )


def _stated_alignment(header: Header) -> object:
    f = header.get("general.alignment")
    return DEFAULT_ALIGNMENT if f is None else f.value
