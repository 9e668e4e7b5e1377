"""Every public function over a model takes a path, a folder, an open model or an address, and says the same."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gguftool
from gguftool.api.mix import Ways
from gguftool.errors import GgufToolError, ToolFailed, UsageError

FIXTURE = Path(__file__).parents[2] / "fixtures/tiny-llama.gguf"
ADDRESS = "http://127.0.0.1:1/m.gguf"
"""Nobody listens there."""


def _edit(model: Any, _: Path) -> Any:
    with gguftool.edit(model) as e:
        e["general.name"] = "another"
    gguftool.undo(model)
    return e.result.strategy if e.result else None


def _patch(model: Any, out: Path) -> Any:
    gguftool.make_patch(FIXTURE, [gguftool.Set("general.name", "another")], out / "patch")
    done = gguftool.apply_patch(model, out / "patch")
    gguftool.undo(model)
    return done.strategy


def _launch(model: Any) -> Any:
    with gguftool.launch(model, server="/nowhere/llama-server") as served:
        return served


READ: dict[str, Callable[[Any, Path], Any]] = {
    "diagnose": lambda m, _: gguftool.diagnose(m, run=False),
    "compare_templates": lambda m, _: gguftool.compare_templates(m, m),
    "diff": lambda m, _: gguftool.diff(m, m),
    "fixes": lambda m, _: gguftool.fixes(m),
    "hash_tensors": lambda m, _: gguftool.hash_tensors(m),
    "lint": lambda m, _: gguftool.lint(m),
    "compat": lambda m, _: gguftool.compat(m).needs,
    "make_patch": lambda m, _: gguftool.make_patch(m, [gguftool.Set("general.name", "x")]).changes,
    "memory": lambda m, _: gguftool.memory(m).total,
    "misfits": lambda m, _: gguftool.misfits(m, m),
    "open": lambda m, _: gguftool.open(m),
    "overview": lambda m, _: gguftool.overview(m),
    "plan": lambda m, _: gguftool.plan(m).advice,
    "predict": lambda m, _: gguftool.predict(m),
    "render": lambda m, _: gguftool.render(m, "Hello").text,
    "report": lambda m, _: gguftool.report(m).model,
    "scan": lambda m, _: [(r["ok"], r["facts"]) for r in gguftool.scan(m)],
    "verify": lambda m, _: gguftool.verify(m).ok,
}
"""Headers are enough: of an address, too."""
DATA: dict[str, Callable[[Any, Path], Any]] = {
    "apply_patch": _patch,
    "compare_tokenizers": lambda m, out: gguftool.compare_tokenizers(m, out).why_not[:9],
    "edit": _edit,
    "hash_file": lambda m, _: gguftool.hash_file(m),
    "known_text": lambda m, _: gguftool.known_text(m),
    "kv_test": lambda m, _: gguftool.kv_test(m, (("f16", "f16"),), tokens=32, chunk=16),
    "launch": lambda m, _: _launch(m),
    "measure_imatrix": lambda m, out: (
        gguftool.measure_imatrix(
            m, out / "i.gguf", gguftool.WantedImatrix(chunk=16, chunks=1, engine="library")
        ).coverage
    ),
    "merge": lambda m, out: gguftool.merge(m, output=out / "o.gguf"),
    "mix": lambda m, _: gguftool.mix(m, "9bpw", Ways(sensitivity="usual")).proposal.patterns,
    "plan_edit": lambda m, _: gguftool.plan_edit(m, [gguftool.Set("general.name", "x")]).changes,
    "plan_launch": lambda m, _: gguftool.plan_launch(m, gguftool.Wishes(ctx=64)).memory,
    "prepare": lambda m, out: gguftool.prepare(m, out / "o.gguf", ctx=1 << 30).ok,
    "push_check": lambda m, _: [f.rule for c in gguftool.push_check(m).checks for f in c.findings],
    "quant_test": lambda m, _: gguftool.quant_test(m, [m], tokens=32, chunk=16).compared,
    "quantize": lambda m, out: gguftool.quantize(m, out / "o.gguf", "Q8_0").plan,
    "recover": lambda m, _: gguftool.recover(m).state,
    "rename_shards": lambda m, _: gguftool.rename_shards(m),
    "repair": lambda m, _: gguftool.repair(m, m),
    "split": lambda m, out: [w.sha256 for w in gguftool.split(m, str(out / "s"), max_tensors=4)],
    "undo": lambda m, _: gguftool.undo(m),
    "write_manifest": lambda m, out: gguftool.write_manifest(m, out / "manifest"),
}
"""The data of the model must be here."""
OF_NO_MODEL = {
    *(
        "check_converted",
        "check_log",
        "convert",
        "doctor",
        "emit",
        "emit_folder",
        "examine",
        "examine_imatrix",
        "explain",
        "explain_error",
    ),
    *(
        "explain_flag",
        "glance",
        "join",
        "judge_log",
        "merge_imatrix",
        "pull",
        "report_page",
        "rules",
        "serve_folder",
        "stored_models",
        "translate",
    ),
    "translate_script",
    "watch",
}


def test_every_public_function_is_tried() -> None:
    functions = {
        n for n in gguftool.__all__ if inspect.isroutine(getattr(gguftool, n)) or inspect.ismodule(getattr(gguftool, n))
    }
    assert functions | {"open"} == {*READ, *DATA, *OF_NO_MODEL}


def _outcome(call: Callable[[Any, Path], Any], model: Any, folder: Path) -> str:
    folder.mkdir()
    try:
        return repr(call(model, folder))
    except GgufToolError as error:
        return f"{type(error).__name__} {str(error).rpartition(': ')[2]}"


@pytest.mark.parametrize("name", [*READ, *DATA])
def test_of_every_form(name: str, tmp_path: Path) -> None:
    call = READ.get(name) or DATA[name]
    folder = tmp_path / "models"
    folder.mkdir()
    path = folder / "m.gguf"
    shutil.copy(FIXTURE, path)
    said = {"text": _outcome(call, str(path), tmp_path / "1"), "path": _outcome(call, path, tmp_path / "2")}
    said["folder"] = _outcome(call, folder, tmp_path / "3")
    if name != "open":
        with gguftool.open(path) as m:
            said["model"] = _outcome(call, m, tmp_path / "4")
    plain = {form: text.replace(str(tmp_path), "").replace("seconds", "") for form, text in said.items()}
    assert len(set(plain.values())) == 1, plain


@pytest.mark.parametrize("name", DATA)
def test_what_needs_the_data_says_how_to_fetch_it(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not on this machine") as caught:
        DATA[name](ADDRESS, tmp_path)
    assert caught.value.hint == f"fetch it first: curl -LO {ADDRESS}"


@pytest.mark.parametrize("name", READ)
def test_what_needs_a_header_asks_the_server(name: str, tmp_path: Path) -> None:
    if name == "scan":
        [row] = gguftool.scan(ADDRESS)
        assert not row["ok"]
        return
    with pytest.raises(ToolFailed, match=r"127\.0\.0\.1"):
        READ[name](ADDRESS, tmp_path)


@pytest.mark.parametrize(
    ("address", "command"),
    [
        ("hf://o/r/a.gguf", "gguftool pull hf://o/r/a.gguf"),
        ("hf://o/r@v2/a b.gguf", "gguftool pull 'hf://o/r@v2/a b.gguf'"),
        ("hf://o/r:Q4_K_M", "gguftool pull hf://o/r:Q4_K_M"),
        ("hf://o/r@v2", "gguftool pull hf://o/r@v2"),
        ("https://huggingface.co/o/r/resolve/v2/a.gguf", "gguftool pull hf://o/r@v2/a.gguf"),
        ("https://h.example/a.gguf?key=1&b=2", "curl -LO 'https://h.example/a.gguf?key=1&b=2'"),
    ],
)
def test_the_command_fetches_what_was_named(
    address: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UsageError) as caught:
        gguftool.hash_file(address)
    assert caught.value.hint == f"fetch it first: {command}"


@pytest.mark.parametrize("name", ["verify", "hash_file", "overview"])
def test_several_models_in_the_cache_are_not_none(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "c" * 40
    repo = tmp_path / "models--o--r"
    (repo / "snapshots" / commit).mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "v2").write_text(commit)
    for quant in ("Q4_K_M", "Q8_0"):
        shutil.copy(FIXTURE, repo / "snapshots" / commit / f"m-{quant}.gguf")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    call = READ.get(name) or DATA[name]
    with pytest.raises(UsageError, match=r"several models: m-Q4_K_M\.gguf, m-Q8_0\.gguf") as caught:
        call("hf://o/r@v2", tmp_path)
    assert caught.value.hint == "name one: hf://o/r@v2/m-Q4_K_M.gguf"
    assert call("hf://o/r@v2:q8_0", tmp_path)
