"""What llama.cpp does, as facts: architectures, layers, cache types, keys, and the reader of the load maps.

All of it was taken from one build, `BUILD`; ``./dev facts`` writes the generated part anew.
"""

BUILD = "b11434"
"""The llama.cpp release that the facts are of."""
