"""Look at a Hugging Face folder before an hour is spent: can it be converted, and what will it take?

Nothing is loaded: config.json, file names and the headers of the safetensors files say enough. `seen.read` reads a
folder once; a check is a function that takes what was seen and yields problems, one module for each subject; `look`
asks them all. What the converter takes and refuses follows `conversion/base.py` (b11434).
"""
