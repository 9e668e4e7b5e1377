"""How objects of the library show themselves: one line at a prompt, a table in a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest

import gguftool
from tests.build import GGUF, llama


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return llama().write(tmp_path / "m.gguf")


def objects(path: Path) -> list[object]:
    log = b"llama_model_load: error loading model: llama_model_loader: failed to load model from x.gguf\n"
    plan = gguftool.plan_edit(path, [gguftool.Set("general.name", "x" * 9999)])
    return [
        gguftool.lint(path),
        gguftool.memory(path),
        gguftool.overview(path),
        gguftool.predict(path),
        gguftool.predict(GGUF("llama").kv("llama.block_count", 1).bytes()),
        gguftool.diff(path, path),
        gguftool.verify(path, hash=True, data=True),
        gguftool.fixes(path),
        gguftool.hash_file(path),
        gguftool.hash_tensors(path)["token_embd.weight"],
        plan,
        plan.forecast,
        gguftool.explain("context_length"),
        gguftool.explain_flag("--ctx-size"),
        gguftool.explain_error("error loading model"),
        gguftool.check_log(log),
        gguftool.examine(),
        gguftool.rules()[0],
        gguftool.plan(path, ctx=2048, vram="4GiB", api_key="sk-secret"),
        gguftool.plan_launch(path, ctx=2048, api_key="sk-secret"),
        gguftool.translate("./main -m m.gguf --ctk q4_0"),
        gguftool.doctor(),
        gguftool.open(path),
        gguftool.edit(path),
    ]


def within(value: object, depth: int = 0, seen: set[int] | None = None) -> list[object]:
    """An object of the package and all of them that can be reached from it."""
    seen = set() if seen is None else seen
    if id(value) in seen or depth > 6:
        return []
    seen.add(id(value))
    found: list[object] = []
    if type(value).__module__.startswith("gguftool."):
        found.append(value)
        names = getattr(type(value), "__dataclass_fields__", {}) or vars(value) if hasattr(value, "__dict__") else {}
        names = names or getattr(type(value), "__dataclass_fields__", {})
        for name in names:
            if not name.startswith("_"):
                found += within(getattr(value, name, None), depth + 1, seen)
    elif isinstance(value, dict):
        for one in list(value.values())[:3]:
            found += within(one, depth + 1, seen)
    elif isinstance(value, (tuple, list)):
        for one in value[:3]:
            found += within(one, depth + 1, seen)
    return found


def test_every_object_shows_itself_in_one_line(path: Path) -> None:
    kinds = set()
    for top in objects(path):
        for one in within(top):
            kinds.add(type(one).__name__)
            shown = repr(one)
            assert len(shown) <= 200, type(one)
            assert "\n" not in shown
            assert "sk-secret" not in shown, type(one)
            assert " object at 0x" not in shown, type(one)
    assert len(kinds) > 25


def test_tables_for_notebooks(path: Path) -> None:
    for one in objects(path):
        if type(one).__name__ in (
            "Model",
            "Report",
            "MemoryPlan",
            "EditPlan",
            "Prediction",
            "Difference",
            "Verification",
        ):
            html = one._repr_html_()  # type: ignore[attr-defined]
            assert html.startswith("<table>"), type(one)
            assert len(html) < 50_000
