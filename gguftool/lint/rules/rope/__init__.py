"""RoPE: positions, scaling, sliding windows and latent attention."""

from __future__ import annotations

from gguftool.lint.rules.rope import attention, position, scaling

__all__ = ["attention", "position", "scaling"]
