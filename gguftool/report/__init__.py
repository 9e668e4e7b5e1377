"""Results as text, JSON and other formats. Knows the dataclasses of the library and nothing of click.

The package can be called: ``gguftool.report("model.gguf")`` is `gguftool.api.report.report`.
"""

from gguftool.door import also_function

also_function(__name__)
