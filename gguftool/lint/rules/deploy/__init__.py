"""Deploy: the four fields a file must carry before it is launched, and whether it is ready for what is wanted.

llama.cpp reads two of them, `{arch}.context_length` and `{arch}.rope.freq_base`. The other two, `{arch}.kv_cache_type`
and `{arch}.rope.freq_scale`, are gguftool's record of how the file is meant to run: llama.cpp reads no such key.
"""

from __future__ import annotations

from gguftool.lint.rules.deploy import cache, context, prefix, rope

__all__ = ["cache", "context", "prefix", "rope"]
