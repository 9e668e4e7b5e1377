"""``python -m gguftool``."""

import sys

from gguftool.cli.main import script

if __name__ == "__main__":
    sys.exit(script())
