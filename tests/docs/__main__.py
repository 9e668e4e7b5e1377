"""`./dev docs --blocks [PAGE ...]`: writes what the commands of the pages print into them; read the difference.

With ``--check`` it only tells what differs, as the test does.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.docs.blocks import pages
from tests.docs.run import faults, rewrite


def main() -> None:
    """Go through the pages that were named, or all."""
    words = [word for word in sys.argv[1:] if word != "--check"]
    for page in [Path(word).resolve() for word in words] or pages():
        if "--check" in sys.argv:
            print("\n\n".join(faults(page)) or f"{page.name}: holds")
        elif rewrite(page):
            print(f"written: {page}")


if __name__ == "__main__":
    main()
