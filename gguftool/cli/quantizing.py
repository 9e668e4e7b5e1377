"""Options of ``quantize`` that ``prepare`` has, too: types of tensors, importances, layers and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gguftool.cli.options import option

if TYPE_CHECKING:
    from gguftool.build.quantize import Options

F = TypeVar("F", bound=Callable[..., Any])
_TYPE, _FILE = "--tensor-type", "--tensor-type-file"
_OPTIONS = (
    option("--imatrix", type=click.Path(), metavar="FILE", help="Importance matrix (gguftool imatrix)."),
    option(
        "--include-weights",
        "include",
        multiple=True,
        metavar="NAME",
        help="Use the importance matrix for tensors with NAME in their names only.",
    ),
    option(
        "--exclude-weights",
        "exclude",
        multiple=True,
        metavar="NAME",
        help="Do not use it for tensors with NAME in their names.",
    ),
    option(_TYPE, "tensor_types", multiple=True, metavar="NAME=TYPE", help="Type of tensors like NAME."),
    option(_FILE, "tensor_type_files", multiple=True, type=click.Path(), metavar="FILE", help="Many NAME=TYPE."),
    option("--output-tensor-type", metavar="TYPE", help="Type of output.weight."),
    option("--token-embedding-type", metavar="TYPE", help="Type of the token embeddings."),
    option("--pure", is_flag=True, help="One type for all tensors, no mixture."),
    option("--leave-output-tensor", is_flag=True, help="Do not quantise output.weight."),
    option("--prune-layers", "prune", multiple=True, metavar="N,…", help="Leave these layers out."),
    option(
        "--override-kv",
        "keys",
        multiple=True,
        metavar="KEY=TYPE:VALUE",
        help="Another value for KEY; TYPE is int, float, bool or str.",
    ),
)


def quantizing(function: F) -> F:
    """The options as a decorator."""
    for one in reversed(_OPTIONS):
        function = one(function)
    return function


def chosen(o: Mapping[str, Any], words: Sequence[str], *, keep_split: bool = False, **more: Any) -> Options:
    """What the options say.

    Args:
        o: their values by name.
        words: of the command line, for the order of types and files of types: the first that matches decides.
        keep_split: as many files as the source has.
        more: further fields of `gguftool.build.quantize.Options`.

    Raises:
        UsageError: one of them is wrong.
    """
    from gguftool.build.changes import Changes, layers, overrides_of
    from gguftool.build.quantize import Options
    from gguftool.build.wanted import overrides

    return Options(
        overrides=overrides(
            _in_order(words, o["tensor_types"], o["tensor_type_files"]),
            o["output_tensor_type"],
            o["token_embedding_type"],
            pure=o["pure"],
            leave_output=o["leave_output_tensor"],
        ),
        changes=Changes(overrides_of(o["keys"]), layers(o["prune"]), keep_split),
        imatrix=o["imatrix"],
        include=o["include"],
        exclude=o["exclude"],
        **more,
    )


def _in_order(words: Sequence[str], types: Sequence[str], files: Sequence[str]) -> Iterator[str]:
    from gguftool.build.wanted import in_file

    typed = [word.partition("=")[0].replace("_", "-") for word in words]
    order = [name for name in typed if name in (_TYPE, _FILE)]
    if (order.count(_TYPE), order.count(_FILE)) != (len(types), len(files)):
        order = [_TYPE] * len(types) + [_FILE] * len(files)
    ones, lists = iter(types), iter(files)
    for name in order:
        if name == _TYPE:
            yield next(ones)
        else:
            yield from in_file(next(lists))
