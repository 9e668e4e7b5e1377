"""Edits of GGUF files in place: crash-safe, undoable, and without copying the tensor data where the file system can.

The package can be called: ``gguftool.edit("m.gguf")`` is `gguftool.edit.session.edit`.
"""

from gguftool.door import also_function

also_function(__name__)
