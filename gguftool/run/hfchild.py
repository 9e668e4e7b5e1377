"""Cuts texts with Hugging Face's ``tokenizers``; started as a script by any Python that has it.

It imports nothing of gguftool, and needs no newer Python than the library itself. It reads one JSON request from stdin
and writes one line of JSON to stdout.
"""

import json
import os
import sys
from typing import Any


def answer(request: "dict[str, Any]") -> "dict[str, Any]":
    """The ids and tokens of each text, or the error of the library."""
    import tokenizers

    try:
        made = tokenizers.Tokenizer.from_str(request["document"])
    except Exception as error:  # the library raises bare ones
        return {"error": str(error)}
    # A file can ask for texts to be cut short or filled up; that is no matter of the tokens.
    made.no_truncation()
    made.no_padding()
    cuts = (made.encode(text, add_special_tokens=request["add"]) for text in request["texts"])
    return {"cuts": [(cut.ids, cut.tokens) for cut in cuts]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answer(json.load(sys.stdin))) + "\n")
    sys.stdout.flush()
    os._exit(0)
