"""The rows of an architecture, and a machine ready to run them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gguftool.facts.data import load
from gguftool.facts.known import by_known, mapped
from gguftool.facts.machine import hparams
from gguftool.facts.machine.program import Machine, Row
from gguftool.facts.machine.reader import Reader


def has_program(arch: str) -> bool:
    """Whether llama.cpp has a model class for that name."""
    return arch in load("load_maps.json")["arch"]


def program(arch: str, part: str) -> list[Row]:
    """Rows of one part (``hparams`` or ``tensors``) of an architecture."""
    family = load("load_maps.json")["arch"][arch]
    if isinstance(family, list):
        family = family[part == "tensors"]
    return family_rows(family, part)


def family_rows(family: str, part: str) -> list[Row]:
    """Rows of one part of a family of architectures."""
    found: list[Row] = load("load_maps.json")["classes"][family][part]
    return found


@by_known(mapped)
def position_table(arch: str) -> str | None:
    """The tensor that has a row for each position of the trained context; None where positions are not learnt."""
    return next((row[1] for row in tensor_rows(arch) if "n_ctx_train" in row[3]), None)


@by_known(mapped)
def head_tensors(arch: str) -> tuple[str, ...]:
    """Tensors of a ranking head that the loader of an architecture takes: ``cls.weight``, ``cls.output.weight`` …"""
    return tuple(row[1] for row in tensor_rows(arch) if row[1].startswith("cls."))


@by_known(mapped)
def dense_tensors(arch: str) -> tuple[str, ...]:
    """Tensors of the projections behind pooling that the loader of an architecture takes: ``dense_2.weight`` …"""
    return tuple(row[1] for row in tensor_rows(arch) if row[1].startswith("dense_"))


def tensor_rows(arch: str) -> list[Row]:
    """Every row of an architecture that asks for a tensor, on whatever condition."""
    return list(_tensors(program(arch, "tensors"))) if has_program(arch) else []


def _tensors(rows: list[Row]) -> Iterator[Row]:
    for row in rows:
        if row[0] == "tensor":
            yield row
        elif row[0] == "include":
            yield from _tensors(family_rows(row[1], row[2]))
        else:
            for part in row:
                if isinstance(part, list) and part and isinstance(part[0], list):
                    yield from _tensors(part)


def common(reader: Reader) -> dict[str, Any]:
    """Read what every architecture reads, as the build that is asked about does it.

    Raises:
        Refusal, Abort: as `hparams.common`.
    """
    rows = load("load_maps.json").get("program")
    if rows is None:
        return hparams.common(reader)
    h = hparams.started(reader)
    reader.scalar("=general.name", "str")
    if reader.arch != "clip":
        machine_of(reader, h).run(rows)
    return h


def machine_of(reader: Reader, h: dict[str, Any]) -> Machine:
    """A machine over these hyperparameters that finds the rows it includes."""
    machine = Machine(reader, h)
    machine.includes = family_rows
    return machine
