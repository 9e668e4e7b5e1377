"""What is still written by hand about architectures, held against the generated rows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from gguftool.facts.arch import facts, names
from gguftool.facts.data import load
from gguftool.facts.keys import every_arch
from gguftool.facts.machine.hparams import EXACT_ROT, common
from gguftool.facts.reads import NEVER, _walk, reads, rows_of
from gguftool.facts.shape import Values
from gguftool.lint.rules.rope.attention import HAVE_WINDOW
from gguftool.memory.kv import _CLASSES, ATTENDS, EVERY_INDEXER
from gguftool.model.role import DRAFTS

ARCH = re.compile(r"(.*\.)?(arch|architecture)")
PACKAGE = Path(__file__).resolve().parents[2] / "gguftool"


@pytest.mark.parametrize("arch", every_arch())
def test_the_common_stage_reads_what_its_rows_read(arch: str) -> None:
    values: dict[str, object] = {f"{arch}.block_count": 1, f"{arch}.attention.head_count": 1}
    reader = Values(arch, values.get)
    common(reader)
    rows = {r.key for r in _walk(load("load_maps.json")["common"], arch, (), {})}
    assert {reader.full(k) for k in rows} == reader.asked
    assert rows_of(arch)[: len(load("load_maps.json")["common"])] == tuple(load("load_maps.json")["common"])


def test_the_exact_rotation_is_that_of_the_rows() -> None:
    (text,) = (str(row) for row in load("load_maps.json")["common"] if "invalid n_rot" in str(row))
    condition = next(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant) and "arch ==" in str(n.value))
    found = {n.value for n in ast.walk(ast.parse(str(condition.value))) if isinstance(n, ast.Constant)}
    assert found == EXACT_ROT


def test_every_kind_of_memory_is_known() -> None:
    for name in names():
        known = facts(name)
        assert known is not None
        assert known.memory in _CLASSES, name
        assert known.attends in ATTENDS, name
        # llama.cpp gives each hybrid the filter of its kind; a new one is a gap of the generator
        assert not known.attends or known.memory.startswith("hybrid"), name


def test_windows_that_go_away_with_their_key() -> None:
    for name in HAVE_WINDOW:
        assert reads(name)["attention.sliding_window"].required == NEVER, name


def test_lists_of_memory_and_roles() -> None:
    for name in EVERY_INDEXER:
        assert "attention.indexer.key_length" in reads(name), name
    for name in DRAFTS - {"gemma4-assistant"}:
        assert reads(name)["target_layers"].required == "always", name


def test_every_architecture_that_code_asks_for_is_one() -> None:
    """``arch == "name"``: a slip, or a name llama.cpp dropped, would never be true."""
    others = {"", "controlvector", "(unknown)", "unknown"}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Compare) or not ARCH.fullmatch(ast.unparse(node.left)):
                continue
            for other in node.comparators:
                for part in ast.walk(other) if not isinstance(other, ast.Call | ast.Subscript) else ():
                    if isinstance(part, ast.Constant) and isinstance(part.value, str) and "." not in part.value:
                        known = part.value in names() or part.value in others
                        assert known or "/" in part.value, f"{path.relative_to(PACKAGE)}:{node.lineno} {part.value!r}"
