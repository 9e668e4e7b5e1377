"""Rules over one model: findings, with fixes as data, and what llama.cpp would do when it loads the file.

The package can be called: ``gguftool.lint("model.gguf", context_length=32768)`` is `gguftool.lint.call.lint`.
"""

from gguftool.door import also_function

also_function(__name__)
