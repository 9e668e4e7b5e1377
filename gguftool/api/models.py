"""Questions about one model or two, each by path, address or open `Model`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gguftool.errors import FormatError
from gguftool.hub import opened

if TYPE_CHECKING:
    from gguftool.lint.fixes import Fixes
    from gguftool.memory.plan import Machine, MemoryPlan
    from gguftool.memory.settings import Settings
    from gguftool.memory.weights import Placement
    from gguftool.model import Model
    from gguftool.model.compare import Difference
    from gguftool.model.overview import Overview
    from gguftool.predict import Prediction
    from gguftool.predict.pairs import Misfit
    from gguftool.source import Source
    from gguftool.verify.hashes import TensorHash

    AnyModel = Model | str | os.PathLike[str]


def overview(model: AnyModel) -> Overview:
    """What a model is: architecture, sizes, quantisation, context, vocabulary, whether it is whole.

    Args:
        model: a path, an address, or an open model; a broken one as far as it can be read.
    """
    from gguftool.model.overview import overview as gather

    with opened(model) as m:
        return gather(m)


def diff(a: AnyModel, b: AnyModel, *, data: bool = False) -> Difference:
    """Keys and tensors that differ between two models.

    Args:
        a: a path, an address, or an open model.
        b: the other.
        data: compare the weights of tensors that both have, too.
    """
    from gguftool.build.datadiff import with_data
    from gguftool.model.compare import compare

    with opened(a) as one, opened(b) as other:
        found = compare(one, other)
        return with_data(found, one, other) if data else found


def predict(model: AnyModel | Source | bytes, build: int | None = None) -> Prediction:
    """What llama.cpp does with a model, told from its header and size alone.

    Args:
        model: a path, an address, or a model opened with ``strict=False``; or bytes, which need not be GGUF.
        build: number of the build of llama.cpp; None: the newest that is known, `gguftool.BUILD`.

    Raises:
        UsageError: nothing is known of that build.
    """
    from gguftool.hub import open_source
    from gguftool.model import Model
    from gguftool.predict import predict as of

    if isinstance(model, (Model, bytes)) or not isinstance(model, (str, os.PathLike)):
        return of(model, build)
    try:
        with opened(model) as m:
            return of(m, build)
    except FormatError:
        source = open_source(model)
        try:
            return of(source, build)
        finally:
            source.close()


def misfits(model: AnyModel, side: AnyModel, given_as: str | None = None) -> tuple[Misfit, ...]:
    """Why a file does not go with a model; empty when it does, as far as their headers tell.

    Args:
        model: the language model: a path, an address, or opened with ``strict=False``.
        side: a projector, adapter, control vector, draft model or importance matrix, likewise.
        given_as: what it is to be used as: ``mmproj``, ``adapter``, ``control-vector``, ``draft``, ``imatrix``; what it
            is when None.

    Raises:
        UsageError: nothing is given to a model as ``given_as``.
    """
    from gguftool.predict.pairs import misfits as of

    with opened(model) as m, opened(side) as beside:
        return of(m, beside, given_as)


def memory(
    model: AnyModel,
    context: int | None = None,
    cache_type: str | tuple[str, str] = ("f16", "f16"),
    *,
    settings: Settings | None = None,
    placement: Placement | None = None,
    machine: Machine | None = None,
) -> MemoryPlan:
    """What llama.cpp takes for a model, in bytes by device.

    Caches, states and weights are exact, compute buffers estimated.

    Args:
        model: a path, an address, or an open model; its header is enough.
        context: tokens of all slots together; None: the file's context length.
        cache_type: types of K and V, ``q8_0``, ``q8_0/q4_0`` or the pair.
        settings: all settings at once, in place of the two above.
        placement: which layers and tensors go where.
        machine: devices and their memory; None: the host alone, its memory unknown.

    Raises:
        UsageError: no context length anywhere, or a cache type that does not exist.
    """
    from gguftool.facts.cachetypes import parse
    from gguftool.memory.plan import memory as plan

    pair = parse(cache_type) if isinstance(cache_type, str) else cache_type
    with opened(model) as m:
        return plan(m, context, pair, settings=settings, placement=placement, machine=machine)


def fixes(model: AnyModel, *, select: Sequence[str] = (), ignore: Sequence[str] = (), unsafe: bool = False) -> Fixes:
    """The edits that the fixes of all findings come to: what ``gguftool fix --auto`` does.

    ``with gguftool.edit(path) as e: e.do(*gguftool.fixes(path).operations)`` does them.

    Args:
        model: a path, or a model opened with ``strict=False``.
        select: rule ids and families to run; all when empty.
        ignore: rule ids and families to leave out.
        unsafe: also those that change what llama.cpp computes.
    """
    from gguftool.lint.fixes import collect

    with opened(model) as m:
        return collect(m, select=select, ignore=ignore, unsafe=unsafe)


def hash_tensors(model: AnyModel, algorithm: str = "sha256") -> dict[str, TensorHash]:
    """The hash of each tensor's data, by name, of all files of a model.

    Args:
        model: a path, an address, or an open model.
        algorithm: ``sha256``, ``sha1``, ``xxh64`` …; see ``gguftool hash --help``.

    Raises:
        FormatError: a header that cannot be read to its end.
        UsageError: no such algorithm.
    """
    from gguftool.verify.digests import maker
    from gguftool.verify.hashes import Want, hash_file

    maker(algorithm)
    want = Want(tensors=True, algorithms=(algorithm,))
    with opened(model) as m:
        return {t.name: t for part in m.parts for t in hash_file(part, want).tensors}
