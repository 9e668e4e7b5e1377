"""Long keys, deep arrays and endless fields where nothing else ends them: 300 MiB and 5 s of the processor at most."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.costly import every
from tests.fuzz.worst import asked

CASES = [
    ("strings", ["dump", "--full"]),
    ("strings", ["dump", "--format", "json"]),
    ("scores-odd", ["dump", "--format", "json", "--full"]),
    ("imatrix-string", ["dump", "--format", "json"]),
    ("nested-deep", ["dump", "--format", "json"]),
    ("keys-long", ["lint", "--format", "sarif"]),
    ("keys-longer", ["dump", "--export", "-"]),
    # Builds before b4875 take empty keys, one after the other.
    ("fields", ["compat"]),
    ("data-q8-1TB", ["lint", "--data"]),
]


@pytest.mark.parametrize(("name", "command"), CASES, ids=lambda v: v if isinstance(v, str) else v[-1])
def test_no_form_costs_out_of_proportion(name: str, command: list[str], tmp_path: Path):
    path = tmp_path / "m.gguf"
    every()[name]().write(path)
    cost = asked(name, [*command, str(path)], tmp_path)
    assert not cost.over, cost
