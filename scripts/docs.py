"""`./dev docs`: writes the generated pages of docs/ anew. ``--check`` only compares."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PAGES = ("cli_reference.py", "rule_reference.py", "notice.py", "package/sbom.py")


def main() -> None:
    """Run every generator; exit with the first that fails."""
    for page in PAGES:
        code = subprocess.run([sys.executable, FOLDER / page, *sys.argv[1:]], cwd=FOLDER.parent, check=False).returncode
        if code:
            sys.exit(code)


if __name__ == "__main__":
    main()
