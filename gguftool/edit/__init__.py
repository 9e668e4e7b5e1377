"""Edits of GGUF files in place: crash-safe, undoable, and without copying the tensor data where the file system can."""
