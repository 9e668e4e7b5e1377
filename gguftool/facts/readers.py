"""What other readers, writers and scanners of GGUF do with a file that llama.cpp takes (each of them was run)."""

STUMBLE_OVER_ALIGNMENT = (
    "modelaudit (0.2.54) reports a parse error, gguf-py 0.6.0 refuses the file, and Ollama's fs/gguf reads every "
    "tensor as if it were 32"
)
"""Of any file with the key `general.alignment`; with the value 32 the last of them is right by chance."""
STUMBLE_OVER_EMPTY_ARRAY = (
    "gguf-py's writers (gguf-new-metadata, the editor; 0.19) refuse empty arrays, so later copies with them fail"
)
