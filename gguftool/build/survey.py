"""What is installed for converting and quantising, for `gguftool doctor`."""

from __future__ import annotations

from gguftool import programs
from gguftool.brief import short_repr
from gguftool.build import converter, kernels, tools
from gguftool.errors import GgufToolError
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """One part.

    Attributes:
        name: ``quantiser``, ``library``, ``built-in quantiser`` or ``converter``.
        label: program and version; "" when there is none.
        path: where it lies, "" when there is none.
        can: what it can do, in words.
        hint: how to get it, or what is wrong with it; None when all is well.
    """

    name: str
    label: str = ""
    path: str = ""
    can: str = ""
    hint: str | None = None

    __repr__ = short_repr


def survey(llama_cpp: str | None = None) -> tuple[Found, ...]:
    """Look for llama-quantize, the llama library, ggml's kernels and the converter; nothing is run but ``--help``.

    Args:
        llama_cpp: folder of llama.cpp to look in first.

    Raises:
        MissingFile: that folder does not exist.
    """
    return (_quantizer(llama_cpp), _library(llama_cpp), _builtin(), _converter(llama_cpp))


def _quantizer(llama_cpp: str | None) -> Found:
    tool = tools.llama_quantize(llama_cpp)
    if tool is None:
        return Found("quantiser", hint=programs.HOW_TO_GET)
    tool = tools.probe(tool)
    known = [flag for flag in ("imatrix", "tensor-type", "override-kv", "dry-run") if flag in tool.flags]
    return Found("quantiser", tool.label, tool.path, ", ".join(f"--{flag}" for flag in known))


def _library(llama_cpp: str | None) -> Found:
    tool = tools.libllama(llama_cpp)
    if tool is None:
        return Found("library", hint=programs.HOW_TO_GET)
    return Found("library", tool.label, tool.path, "quantises in a child process")


def _builtin() -> Found:
    found = kernels.find()
    hint = None if kernels.library_path() else kernels.HOW_TO_GET
    return Found("built-in quantiser", found.name, kernels.library_path() or "", f"{len(found.writes)} types", hint)


def _converter(llama_cpp: str | None) -> Found:
    try:
        found = converter.find(llama_cpp)
    except GgufToolError as error:
        return Found("converter", hint=f"{error}; {error.hint}" if error.hint else str(error))
    if found is None:
        return Found("converter", hint=converter.HOW_TO_GET)
    known = f"{len(found.architectures)} architectures" if found.architectures else "architectures unknown"
    return Found("converter", found.label, found.script or found.python, known)
