"""What the command line says of types, as values: ``NAME=TYPE``, alone and in files."""

from __future__ import annotations

from collections.abc import Iterable

from gguftool.build.mixture import Overrides
from gguftool.build.patterns import BadPattern, compiled
from gguftool.errors import UsageError
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from gguftool.near import near_names
from gguftool.reading import file_bytes

NOT_MADE = frozenset(("Q8_1", "Q8_K", "I8", "I16", "I32", "I64", "F64"))
"""Tensor types that nothing is quantised to."""
_MOST = 1 << 24
"""Bytes of a list of types."""


def overrides(
    tensor_types: Iterable[str] = (),
    output_type: str | None = None,
    embedding_type: str | None = None,
    *,
    pure: bool = False,
    leave_output: bool = False,
) -> Overrides:
    """Overrides out of text such as ``ffn_down=q6_k``; what the patterns mean: `gguftool.build.patterns`.

    Raises:
        UsageError: no ``=``, a broken pattern, or no such tensor type.
    """
    return Overrides(
        tuple(tensor_type(text) for text in tensor_types),
        kind(output_type) if output_type else None,
        kind(embedding_type) if embedding_type else None,
        pure,
        leave_output,
    )


def tensor_type(text: str) -> tuple[str, str]:
    """``NAME=TYPE``, cut at the first ``=`` as llama-quantize does (`quantize.cpp:parse_tensor_type`, b11434).

    Raises:
        UsageError: it is none.
    """
    pattern, sign, name = text.partition("=")
    said = f"--tensor-type {text}"
    if not sign or not pattern or not name:
        raise UsageError(f"{said}: expected NAME=TYPE", "for example --tensor-type ffn_down=q6_k")
    try:
        compiled(pattern)
    except BadPattern as e:
        raise UsageError(f"{said}: {e}", "patterns are those of std::regex, in small letters (docs/build.md)") from None
    return "".join(c.lower() if c.isascii() else c for c in pattern), kind(name)


def in_file(path: str) -> list[str]:
    """The entries of a list of types, between white space (`quantize.cpp:parse_tensor_type_file`, b11434).

    Raises:
        MissingFile, Unreadable: as for any file.
        UsageError: there is none in it.
    """
    found = [word.decode("utf-8", "surrogateescape") for word in file_bytes(path, _MOST).split()]
    if not found:
        raise UsageError(f"--tensor-type-file {path}: has no NAME=TYPE in it")
    for text in found:
        try:
            tensor_type(text)
        except UsageError as e:
            raise UsageError(f"{path}: {e}", e.hint) from None
    return found


def kind(name: str) -> str:
    """The tensor type of that name, in any case.

    Raises:
        UsageError: there is none, or nothing is quantised to it.
    """
    found = TENSOR_TYPE_BY_NAME.get(name.strip().upper())
    if found is not None and found.name not in NOT_MADE:
        return found.name
    near = near_names(name.upper(), [n for n in TENSOR_TYPE_BY_NAME if n not in NOT_MADE], 3, 0.4)
    hint = f"near: {', '.join(near)}" if near else None
    if found is not None:
        raise UsageError(f"{found.name} is a tensor type that nothing is quantised to", hint)
    raise UsageError(f"there is no tensor type {name!r} to quantise to", hint)
