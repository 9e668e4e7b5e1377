"""``python -m gguftool``."""

import sys

from gguftool.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
