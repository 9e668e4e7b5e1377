"""`./dev docs`: writes the generated pages of docs/ and the manual pages anew, then builds the site into build/site.

``--check`` only compares what is generated.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PAGES = (
    "cli_reference.py", "rule_reference.py", "reference/exits.py", "reference/environment.py",
    "reference/configuration.py", "reference/schemas.py", "reference/python.py", "reference/man.py", "notice.py",
    "package/sbom.py",
)  # fmt: skip


def main() -> None:
    """Run every generator, then mkdocs; exit with the first that fails."""
    for page in PAGES:
        _run([str(FOLDER / page), *sys.argv[1:]])
    if "--check" not in sys.argv[1:]:
        _run(["-m", "mkdocs", "build", "--quiet", "--strict"])


def _run(words: list[str]) -> None:
    # Without this mkdocs-material tells of the tool that its makers write next.
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(FOLDER.parent)}
    code = subprocess.run([sys.executable, *words], cwd=FOLDER.parent, env=env, check=False).returncode
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main()
