"""How much memory a model takes, and with which settings it fits.

Sizes of KV caches and states are exact; weights are exact by tensor and device; compute buffers are estimated unless
they were measured. Nothing here opens a file or starts a program.

The package can be called: ``gguftool.memory("m.gguf", context=32768, cache_type="q8_0")`` is
`gguftool.api.models.memory`.
"""

from gguftool.door import also_function

also_function(__name__)
