"""What llama.cpp does, as facts: architectures, layers, cache types, keys, and the reader of the load maps.

All of it was taken from one build, `BUILD`; ``./dev facts`` writes the generated part anew.
"""

BUILD = "b11434"
"""The llama.cpp release that the facts are of."""
NUMBER = int(BUILD[1:])


def llama_cpp(build: int | None = None) -> str:
    """How people are told which llama.cpp a sentence is about: ``llama.cpp b8179``; None: that of the facts."""
    return f"llama.cpp {BUILD if build is None else f'b{build}'}"
