"""The picture of memory in the real page: what it shows is what `gguftool plan` says, to the byte."""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import gguftool.api.report
from gguftool.api.plan import engine_for, fitted
from gguftool.api.report import report
from gguftool.api.turning import turning
from gguftool.cli.plan import plan as plan_command
from gguftool.model import Model, open_model
from gguftool.report.page.render import report_page
from gguftool.run.deploy import look as look_at
from gguftool.verify.call import split
from tests import projectors
from tests.build import GGUF, llama
from tests.memory.giants import whole

PARTS = {
    "weights": "weights", "kv": "kv", "state": "state", "compute": "compute", "output": "output",
    "projector": "projector", "beside": "beside", "total": "total", "memory": "memory",
}  # fmt: skip
SETTINGS = 64
"""Settings of each model, by chance; among them some that were not planned."""
LEAST = {"SmolLM2": 50, "windows": 40, "experts": 42, "hybrid": 30, "split": 55}
"""Different settings of each that show figures, at least: 217 together."""

TURN = """(settings) => settings.map((chances) => {
  const seen = [];
  const turn = (id, chance) => {
    const node = document.getElementById("turn-" + id);
    if (!node || node.closest("[hidden]") || node.disabled) return;
    const last = node.tagName === "SELECT" ? node.options.length - 1 : Number(node.max);
    node.value = String(Math.min(last, Math.floor(chance * (last + 1))));
    node.dispatchEvent(new Event(node.tagName === "SELECT" ? "change" : "input", { bubbles: true }));
  };
  for (const [id, chance] of chances) turn(id, chance);
  const rows = [...document.querySelectorAll("#turned-now tbody tr")].map((tr) => [tr.dataset.device,
    Object.fromEntries([...tr.querySelectorAll("td")].map((td) => [td.dataset.part, td.dataset.value]))]);
  return {
    state: document.getElementById("turned").dataset.state,
    says: document.querySelector("#turned .says").textContent,
    plan: document.querySelector("#turned [data-command=plan]").textContent,
    launch: document.querySelector("#turned [data-command=launch]")?.textContent,
    rows: Object.fromEntries(rows),
    all: [...document.querySelectorAll("#turned-all tbody tr")].map((tr) => [Number(tr.dataset.context),
      [...tr.querySelectorAll("td[data-device]")].map((td) => Number(td.dataset.value))]),
  };
})"""
KNOBS = ("devices", "slots", "k", "v", "context", "vram0", "vram1", "vram2", "layers", "experts", "ram")


@pytest.fixture(autouse=True)
def less_is_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A smaller grid, so that five of them take no minute."""
    monkeypatch.setattr(gguftool.api.report, "turning", partial(turning, budget=20_000))


def chances(seed: int, count: int) -> list[list[tuple[str, float]]]:
    """Where each knob is turned to, setting by setting: one device, few slots and equal types more often than not."""
    rolls = random.Random(seed)
    out = []
    for _ in range(count):
        at = {knob: rolls.random() for knob in KNOBS}
        at["devices"] = rolls.choice((0.1, 0.3, 0.3, 0.3, 0.6, 0.9))
        at["slots"] **= 3
        at["v"] = at["k"] if rolls.random() < 0.7 else at["v"]
        out.append(list(at.items()))
    return out


def asked(m: Model, line: str) -> Any:
    """What `plan` says, asked afresh with the words of a line."""
    words = shlex.split(line)
    assert words[:2] == ["gguftool", "plan"]
    with plan_command.make_context("plan", words[2:]) as context:
        params = dict(context.params)
    wishes = params["wishes"]
    engine = engine_for(wishes, params["build"])
    _, _, fit = fitted(m, wishes, engine, look_at(wishes, engine.tool))
    return fit.plan


def differing(m: Model, seen: dict[str, Any]) -> list[str]:
    """Where the page and the plan are not the same."""
    plan = asked(m, seen["plan"])
    if seen["state"] == "refused":
        return [] if plan.refused else [f"not refused: {seen['plan']}"]
    if seen["state"] == "unplanned":
        return [] if not seen["rows"] else [f"figures of what was not planned: {seen['plan']}"]
    out = [f"{seen['plan']}: {d} {seen['rows']}" for d in {x.name for x in plan.devices} ^ set(seen["rows"])]
    for d in plan.devices:
        row = seen["rows"].get(d.name, {})
        for part, field in PARTS.items():
            want, have = getattr(d, field), row.get(part, "0")
            if part == "memory" and have == "":
                continue
            if str(want) != have:
                out.append(f"{seen['plan']}: {d.name} {part} is {want}, shown {have}")
    if int(seen["rows"]["CPU"]["program"]) != plan.program:
        out.append(f"{seen['plan']}: the program takes {plan.program}")
    named = seen["rows"]["CPU"]["memory"] != ""
    fits = plan.fits if named else (False if any(d.fits is False for d in plan.devices[:-1]) else None)
    if seen["state"] != {True: "fits", False: "over", None: "unknown"}[fits]:
        out.append(f"{seen['plan']}: {seen['state']}, but fits: {fits}")
    if seen["launch"] and fits is False:
        out.append(f"a server that does not fit: {seen['launch']}")
    return out


def small(layers: int) -> GGUF:
    """A model whose heads are as wide as a block of a quantised cache."""
    g = llama(layers=layers).replace("llama.rope.dimension_count", 32)
    return g.replace("llama.attention.head_count", 2).replace("llama.attention.head_count_kv", 1)


def split_model(folder: Path) -> Path:
    split(small(9).write(folder / "nine.gguf"), str(folder / "nine"), max_tensors=30)
    return min(folder.glob("nine-0*.gguf"))


MODELS: dict[str, Callable[[Any, Path], Path]] = {
    "SmolLM2": lambda request, folder: request.getfixturevalue("smollm2"),
    "windows": lambda request, folder: request.getfixturevalue("gemma3"),
    "experts": lambda request, folder: whole("qwen3-30b-a3b", folder),
    "hybrid": lambda request, folder: whole("qwen35-9b", folder),
    "split": lambda request, folder: split_model(folder),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_setting_shows_what_plan_says(name, look, request, tmp_path):
    path = MODELS[name](request, tmp_path)
    page = report_page(report(path, vram="24GiB", ram="64GiB"))
    seen = look(page)
    found = seen.page.evaluate(TURN, [[], *chances(len(name), SETTINGS)])
    with open_model(path) as m:
        wrong = [line for x in found for line in differing(m, x)]
    assert wrong[:3] == []
    drawn = [x for x in found if x["rows"]]
    assert {len(x["rows"]) for x in drawn} >= {1, 2}
    assert len({x["plan"] for x in drawn}) >= LEAST[name]
    seen.quiet()


def test_what_stands_beside_it_counts(look, tmp_path):
    path = small(5).write(tmp_path / "five.gguf")
    draft = small(2).write(tmp_path / "two.gguf")
    eye = projectors.mlp().gguf().write(tmp_path / "mmproj.gguf")
    seen = look(report_page(report(path, vram="4GiB", mmproj=str(eye), draft=str(draft))))
    found = seen.page.evaluate(TURN, [[], *chances(1, 30)])
    with open_model(path) as m:
        wrong = [line for x in found for line in differing(m, x)]
    assert wrong[:3] == []
    assert any(int(row["beside"]) and int(row["projector"]) for x in found for row in x["rows"].values())


@pytest.fixture(scope="module")
def page(smollm2) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gguftool.api.report, "turning", partial(turning, budget=12_000))
        return report_page(report(smollm2, vram="8GiB", ram="16GiB"))


def now(seen: Any) -> dict[str, Any]:
    return seen.page.evaluate(TURN, [[]])[0]


def test_the_first_picture_is_the_plan(look, page, smollm2):
    seen = now(look(page))
    plan = gguftool.plan(smollm2, vram="8GiB", ram="16GiB").memory
    assert seen["state"] == "fits"
    assert {name: int(row["total"]) for name, row in seen["rows"].items()} == {d.name: d.total for d in plan.devices}
    assert seen["all"][-1] == [8192, [d.total for d in plan.devices]]
    assert "Fits up to 8,192 tokens" in seen["says"]


def test_what_was_asked_for_is_there_whatever_else(look, smollm2, monkeypatch):
    monkeypatch.setattr(gguftool.api.report, "turning", partial(turning, budget=2_000))
    how = {
        "vram": "3GiB,2100MiB",
        "ctx": 3000,
        "parallel": 3,
        "cache_type": "q5_1/q4_0",
        "gpu_layers": 20,
        "ram": "8GiB",
    }
    seen = now(look(report_page(report(smollm2, **how))))
    plan = gguftool.plan(smollm2, **how).memory
    assert {name: int(row["total"]) for name, row in seen["rows"].items()} == {d.name: d.total for d in plan.devices}
    assert "--vram 3GiB,2202009600B" in seen["plan"]


def test_sliders_turn_by_keyboard(look, page):
    seen = look(page)
    knob = seen.page.get_by_label("Context, tokens")
    knob.focus()
    seen.page.keyboard.press("Home")
    assert knob.get_attribute("aria-valuetext") == "512"
    seen.page.keyboard.press("ArrowRight")
    first = now(seen)
    assert "--ctx 768 " in first["plan"]
    assert "--ctx 768 " in first["launch"]
    memory = seen.page.get_by_label("Memory of CUDA0")
    memory.focus()
    seen.page.keyboard.press("Home")
    assert "--vram 2GiB " in now(seen)["plan"]
    seen.page.get_by_label("Cache type of K").select_option("q4_0")
    assert int(now(seen)["rows"]["CUDA0"]["kv"]) < int(first["rows"]["CUDA0"]["kv"])


def test_what_does_not_fit_has_no_server(look, page):
    seen = look(page)
    fits = seen.page.evaluate(TURN, [[["devices", 0.0], ["ram", 0.1]]])[0]
    seen.page.evaluate("gguftool.data.memory.reserve = 2 ** 42")
    over = seen.page.evaluate(TURN, [[["context", 0.0]]])[0]
    assert (fits["state"], over["state"]) == ("fits", "over")
    assert fits["launch"]
    assert not over.get("launch")
    assert "Does not fit: over on CPU by" in over["says"]
    assert "Not even 512 tokens fit" in over["says"]


def test_the_command_runs_as_it_stands(look, page, cli):
    seen = look(page)
    turned = seen.page.evaluate(TURN, [[["context", 0.3], ["layers", 0.5], ["vram0", 0.4]]])[0]
    words = shlex.split(turned["plan"])
    found = cli(*words[1:], "--format", "json").json
    assert found["total"]["bytes"] == sum(int(row["total"]) for row in turned["rows"].values())
    assert found["process"]["program"] == int(turned["rows"]["CPU"]["program"])
    assert found["fits"] is True


def test_what_was_not_planned_is_not_shown(look, smollm2, monkeypatch):
    monkeypatch.setattr(gguftool.api.report, "turning", partial(turning, budget=1_500))
    seen = look(report_page(report(smollm2, vram="8GiB", ram="16GiB")))
    bare = seen.page.evaluate(TURN, [[["slots", 0.9], ["devices", 0.9]]])[0]
    assert bare["state"] == "unplanned"
    assert (bare["rows"], bare["all"], bare.get("launch")) == ({}, [], None)
    assert "not planned" in bare["says"]
    assert "--parallel 8" in bare["plan"]
    assert "(command only)" in seen.page.inner_text("#turn-slots")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 360)])
def test_nothing_is_in_the_way(look, page, scheme, width):
    seen = look(page, color_scheme=scheme, width=width)
    assert seen.axe(within="#memory") == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    seen.quiet()


def test_without_scripts_the_plan_is_a_table(look, page, smollm2):
    seen = look(page, java_script_enabled=False)
    text = seen.page.inner_text("#memory")
    plan = gguftool.plan(smollm2, vram="8GiB", ram="16GiB").memory
    assert f"{plan.devices[0].kv / 2**20:.1f} MiB" in text
    assert not seen.page.is_visible("#memory .knobs")
    seen = look(page)
    seen.page.emulate_media(media="print")
    assert not seen.page.is_visible("#memory .knobs")
    assert seen.page.is_visible("#memory svg.memory")


def test_it_is_small(page):
    start = page.index('id="data"')
    memory = page.index('"memory":{', start)
    assert page.index("</script>", memory) - memory < 60_000
    assert len(page) < 400_000
