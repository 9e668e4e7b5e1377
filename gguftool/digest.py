"""SHA-256 of small things: names, templates, numbers.

Python has it built in; `hashlib` loads OpenSSL first, in 2 ms, which is what 500 KB are worth. Whole headers and files
are hashed by `hashlib`, whose OpenSSL is several times as fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha2 import sha256
    except ImportError:
        try:
            from _sha256 import sha256  # Python 3.11
        except ImportError:
            from hashlib import sha256

__all__ = ["sha256"]
