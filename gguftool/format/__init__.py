"""The GGUF format: bytes to `Header` and back, nothing interpreted."""
