"""A repository at a glance: every quantisation a row, with the figures of its own plan; the best first."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import gguftool
from gguftool.api.glance import OVER, PARTLY, WHOLE, Entry, Glance, glance
from gguftool.hub.ahead import WORKERS, Ahead
from gguftool.hub.repo import collection, several
from gguftool.report.glance import labels
from tests import stores
from tests.build import llama
from tests.hub.forms import hugging_face_cache
from tests.hub.quantised import MIXTURES, NAME, PLAIN, bits, files, model
from tests.hub.server import Site

REPO = "owner/tiny-GGUF"
SPEC = f"hf://{REPO}"
ROOMY = ("--ctx", "32768", "--vram", "2GiB", "--ram", "8GiB")


@pytest.fixture
def repo(site: Site) -> dict[str, bytes]:
    site.repos[REPO] = files()
    return site.repos[REPO]


def few(site: Site, *kinds: str) -> None:
    """Only those files, by a part of their names."""
    site.repos[REPO] = {n: d for n, d in files().items() if any(kind in n for kind in kinds)}


def by_kind(g: Glance) -> dict[str, Entry]:
    """Entries by the quantisation in their names."""
    return {re.sub(r"-\d{5}-of.*|\.gguf$", "", x.listed.name).rpartition("-")[2]: x for x in g.models}


def path_of(kind: str) -> str:
    return f"BF16/{NAME}-BF16-00001-of-00003.gguf" if kind == "BF16" else f"{NAME}-{kind}.gguf"


def test_every_quantisation_is_a_row(cli: Any, repo: dict[str, bytes], site: Site) -> None:
    found = cli("plan", SPEC, *ROOMY, "--format", "json")
    assert found.code == 0, found.err
    rows = {row["name"]: row for row in found.json["models"]}
    assert set(rows) == {path_of(kind) for kind in (*MIXTURES, "Q5_0")}
    for kind in MIXTURES:
        row = rows[path_of(kind)]
        mine = [name for name in repo if kind in name.split("-")[-1] or (kind == "BF16" and "BF16/" in name)]
        assert row["size"] == sum(len(repo[name]) for name in mine)
        assert row["bits_per_weight"] == pytest.approx(bits(kind), abs=1e-4)
        assert (row["imatrix"] is None) == (kind in PLAIN)
        assert len(row["files"]) == (3 if kind == "BF16" else 1)
        assert row["quantisation"] == kind
        assert row["standing"] == "fits"
        assert row["load"]["verdict"] == "loads"
    assert rows[path_of("Q4_K_M")]["imatrix"] == {
        "file": "imatrix.dat", "dataset": "calibration.txt", "entries": 28, "chunks": 125,
    }  # fmt: skip
    # Said by llama.cpp's history (facts/timeline): BF16 came with b2808, IQ4_XS with b2281.
    assert {k: rows[path_of(k)]["since"] for k in ("BF16", "IQ4_XS", "Q4_0")} == {
        "BF16": 2808, "IQ4_XS": 2281, "Q4_0": None,
    }  # fmt: skip
    broken = found.json["models"][-1]
    assert (broken["name"], broken["standing"], broken["plan"]) == (path_of("Q5_0"), "not-readable", None)
    assert "cannot fit" in broken["error"]["message"]
    order = [row["bits_per_weight"] for row in found.json["models"][:-1]]
    assert order == sorted(order, reverse=True)
    assert found.json["best"] == path_of("BF16")
    words = ["--ctx", "32768", "--vram", "2GiB", "--ram", "8GiB"]
    assert [c[:3] for c in found.json["commands"]] == [
        ["gguftool", "pull", f"{SPEC}/{path_of('BF16')}"], ["gguftool", "launch", f"{SPEC}/{path_of('BF16')}"],
    ]  # fmt: skip
    assert all(sorted(c[3:]) == sorted(words) for c in found.json["commands"])
    beside = {row["name"]: (row["role"], row["unfit"]) for row in found.json["beside"]}
    assert {name: role for name, (role, _) in beside.items()} == {
        "mmproj-F16.gguf": "mmproj", "mmproj-other-F16.gguf": "mmproj", "imatrix.gguf": "imatrix",
        "imatrix.dat": "imatrix", f"{NAME}-style.gguf": "adapter",
    }  # fmt: skip
    assert beside["mmproj-F16.gguf"][1] == ""
    assert "512 wide" in beside["mmproj-other-F16.gguf"][1]
    headers = [r.path.rpartition("/")[2] for r in site.log if "/resolve/" in r.path]
    assert sorted(headers) == sorted({n.rpartition("/")[2] for n in repo if n.endswith(".gguf")}), "each once"


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("BF16", ("--vram", "1040MiB")),
        ("Q6_K", ("--ctx", "32768", "--vram", "1060MiB", "--ram", "8GiB")),
        ("IQ4_XS", ("--ctx", "32768", "--vram", "2GiB", "--cache-type", "q8_0", "--parallel", "2")),
    ],
)
def test_figures_are_those_of_the_plan_of_one(cli: Any, site: Site, kind: str, options: tuple[str, ...]) -> None:
    few(site, kind, "Q4_0")
    rows = {r["name"]: r for r in cli("plan", SPEC, *options, "--format", "json").json["models"]}
    alone = cli("plan", f"{SPEC}/{path_of(kind)}", *options, "--format", "json").json
    plan = rows[path_of(kind)]["plan"]
    assert plan["fits"] == alone["fits"]
    assert plan["context"] == alone["context"]["requested"]
    assert (plan["type_k"], plan["type_v"]) == (alone["kv"]["type_k"], alone["kv"]["type_v"])
    assert plan["total"] == alone["total"]["bytes"]
    assert [(d["name"], d["total"]) for d in plan["devices"]] == [(d["name"], d["total"]) for d in alone["devices"]]


def test_what_fits_whole_comes_before_more_bits_on_the_host(site: Site) -> None:
    few(site, "BF16", "Q8_0", "Q6_K", "Q2_K")
    asked: dict[str, Any] = {"ctx": 32768, "cache_type": "q8_0", "ubatch": 512, "ram": "8GiB"}
    one = gguftool.plan(f"{SPEC}/{path_of('Q6_K')}", vram="2GiB", **asked).memory.devices[0]
    g = glance(SPEC, vram=str(one.total + one.reserve + (64 << 10)), **asked)
    kinds = by_kind(g)
    assert (kinds["Q6_K"].standing, kinds["Q8_0"].standing) == (WHOLE, PARTLY)
    assert kinds["Q8_0"].fits
    assert "layers" in kinds["Q8_0"].on_host
    assert g.best() is kinds["Q6_K"]
    order = [x.standing for x in g.models]
    assert order == sorted(order)
    g = glance(SPEC, vram=str(one.total + one.reserve + (64 << 10)), gpu_layers=99, **asked)
    kinds = by_kind(g)
    assert (kinds["Q6_K"].standing, kinds["Q8_0"].standing, kinds["BF16"].standing) == (WHOLE, OVER, OVER)
    over = [x.over for x in g.models if x.standing == OVER]
    assert over == sorted(over), "the least over first"


def test_nothing_fits(cli: Any, site: Site) -> None:
    few(site, "Q6_K", "Q2_K")
    found = cli("plan", SPEC, "--ctx", "32768", "--vram", "1GiB", "--ram", "64MiB")
    assert found.code == 5
    assert f"none fits; the least over is {path_of('Q2_K')}, by " in found.out
    assert "planned for CUDA0 1.0 GiB, CPU 64.0 MiB · " in found.out
    assert "1.0 GiB of each is kept free (--reserve)" in found.out
    assert "\nbest " not in found.out
    assert cli("plan", SPEC, "--measure").code == 2


def test_what_would_fit_is_offered_and_does(cli: Any, site: Site) -> None:
    few(site, "Q6_K", "Q2_K")
    found = cli("plan", SPEC, "--ctx", "32768", "--vram", "1GiB", "--ram", "1200MiB", "--format", "json")
    assert found.code == 5
    offers = {x["what"]: x["command"] for x in found.json["offers"]}
    assert list(offers) == ["512.0 MiB kept free instead of 1.0 GiB", "the host alone"]
    for words in offers.values():
        assert words[:3] == ["gguftool", "pull", f"{SPEC}/{path_of('Q2_K')}"]
        assert cli("plan", *words[2:]).code == 0
    narrow = cli("plan", SPEC, "--ctx", "32768", "--vram", "1GiB", "--ram", "1200MiB", "--reserve", "992MiB")
    assert f"  with a context of 8,192: gguftool pull {SPEC}/{path_of('Q2_K')} --ctx 8192 " in narrow.out


def test_the_screen(cli: Any, site: Site) -> None:
    few(site, "BF16", "Q6_K", "IQ4_XS", "Q5_0", "mmproj")
    shown = cli("plan", SPEC, *ROOMY).out
    table = shown[: shown.index("beside them")].splitlines()
    assert all(len(line) <= 80 for line in table), "a terminal of 80 columns"
    names = [line.split()[0] for line in table[5:-3]]
    assert names == ["BF16", "Q6_K", "IQ4_XS", "Q5_0"]
    assert "context 32k · cache f16" in shown, "what is the same in all is said once"
    assert "Q5_0: array of 600 strings cannot fit into the 2,361 bytes left" in shown
    assert "does not go with them: it is of another model" in shown
    assert f"gguftool pull {SPEC}/{path_of('BF16')} --ctx 32768 --vram 2GiB --ram 8GiB" in shown


def test_one_that_the_hub_does_not_give_hides_nothing(cli: Any, site: Site) -> None:
    class Hole(dict[str, bytes]):
        def get(self, key: str, default: Any = None) -> Any:
            return None if "Q6_K" in key else super().get(key, default)

    few(site, "Q6_K", "Q8_0", "Q4_0")
    site.repos[REPO] = Hole(site.repos[REPO])
    found = cli("plan", SPEC, *ROOMY, "--format", "json")
    assert found.code == 0
    assert [r["standing"] for r in found.json["models"]] == ["fits", "fits", "not-readable"]
    assert found.json["models"][-1]["error"]["code"] == "missing-file"
    shown = cli("compat", SPEC)
    assert shown.code == 2
    assert shown.out.count(" every build ") == 2
    assert "not readable" in shown.out


def test_lint_and_compat_take_every_header(cli: Any, site: Site) -> None:
    few(site, "BF16", "IQ4_XS", "mmproj-F16", "Q5_0")
    linted = cli("lint", SPEC, "--no-config", "--format", "json").json["files"]
    assert [f["path"].rpartition("/")[2] for f in linted] == [
        path_of("BF16").rpartition("/")[2], path_of("IQ4_XS"), path_of("Q5_0"), "mmproj-F16.gguf",
    ]  # fmt: skip
    rows = {r["name"]: r for r in cli("plan", SPEC, *ROOMY, "--build", "b11434", "--format", "json").json["models"]}
    for f in linted[:2]:
        [row] = [r for name, r in rows.items() if f["path"].endswith(name)]
        counts = {s: sum(x["severity"] == s for x in f["findings"]) for s in ("error", "warning", "info")}
        assert row["lint"] == counts
    site.log.clear()
    found = cli("compat", SPEC, "--format", "json")
    assert found.code == 3, "one cannot be read to the end of its header"
    assert len([r for r in site.log if "/resolve/" in r.path]) == 6
    for row in found.json["models"][1:]:
        alone = cli("compat", f"{SPEC}/{row['name']}", "--format", "json").json
        assert (row["since"], row["needs"]) == (alone["since"], alone["needs"])
        assert row["builds"][-1]["verdict"] == alone["builds"][-1]["verdict"]
    asked = cli("compat", SPEC, "--build", "b2300").out
    assert re.search(r"BF16-00001-of-00003.gguf +b2808 +refuses .*invalid ggml type 30", asked)
    assert re.search(r"IQ4_XS.gguf +b2281 +loads", asked)


def test_a_folder_and_the_cache_without_a_network(
    cli: Any, tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    few = {n: d for n, d in files().items() if "Q6_K" in n or "Q4_0" in n or "mmproj-F16" in n}
    for name, data in few.items():
        (folder / name).write_bytes(data)
    found = cli("plan", folder, *ROOMY, "--format", "json")
    assert [r["name"] for r in found.json["models"]] == [path_of("Q6_K"), path_of("Q4_0")]
    assert [r["name"] for r in found.json["beside"]] == ["mmproj-F16.gguf"]
    assert [c[:3] for c in found.json["commands"]] == [["gguftool", "launch", str(folder / path_of("Q6_K"))]]
    hugging_face_cache(tmp_path, few)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    cached = cli("plan", "hf://o/r", *ROOMY, "--format", "json")
    assert [r["name"] for r in cached.json["models"]] == [path_of("Q6_K"), path_of("Q4_0")]
    assert cached.json["models"][0]["plan"] == found.json["models"][0]["plan"]
    away = cli("plan", "hf://owner/none", *ROOMY)
    assert away.code == 6
    assert "HF_HUB_OFFLINE forbids the network" in away.err
    assert site.log == []


def test_several_models_in_one_place(cli: Any, tmp_path: Path) -> None:
    model("Q6_K").write(tmp_path / "a.gguf")
    model("Q4_0").write(tmp_path / "b.gguf")
    llama(layers=2).write(tmp_path / "other.gguf")
    g = glance(tmp_path, ctx=2048, ram="8GiB")
    assert [len(group) for group in g.groups] == [1, 2] or [len(group) for group in g.groups] == [2, 1]
    assert g.best() is None, "which of the models is not ours to say"
    assert {best.listed.name for group in g.groups if (best := g.best(group))} == {"a.gguf", "other.gguf"}
    shown = cli("plan", tmp_path, "--ctx", "2048", "--ram", "8GiB").out
    assert shown.count("\n  gguftool launch ") == 2


def test_a_quantisation_of_which_there_are_several(repo: dict[str, bytes]) -> None:
    repo[f"{NAME}-UD-Q4_K_M.gguf"] = model("Q4_K_M").bytes()
    repo[f"{NAME}-pure-Q4_K_M.gguf"] = model("Q4_K_M").bytes()
    there = several(f"{SPEC}:Q4_K_M")
    assert there is not None
    assert [x.name for x in there.models] == [path_of("Q4_K_M"), f"{NAME}-pure-Q4_K_M.gguf"]
    assert several(f"{SPEC}:Q6_K") is None


def test_what_a_file_is_its_content_says(site: Site) -> None:
    """A name with "imatrix" in it may be that of a model made with one, any name that of an adapter."""
    few(site, "Q4_0", "style")
    site.repos[REPO][f"{NAME}-imatrix-Q6_K.gguf"] = model("Q6_K").bytes()
    g = glance(SPEC, ctx=4096, vram="2GiB", ram="8GiB", since=False)
    assert [x.listed.name for x in g.models] == [f"{NAME}-imatrix-Q6_K.gguf", path_of("Q4_0")]
    assert [(x.listed.name, x.role) for x in g.beside] == [(f"{NAME}-style.gguf", "adapter")]


def test_labels() -> None:
    assert labels(["a/Foo-7B-Q4_K_M.gguf", "Foo-7B-Q4_0.gguf"]) == ["Q4_K_M", "Q4_0"]
    assert labels(["Foo-Q4_0.gguf", "Foo-Q8_0-00001-of-00002.gguf"]) == ["Q4_0", "Q8_0"]
    assert labels(["one.gguf"]) == ["one"]
    assert labels(["Foo.gguf", "Foo-x.gguf"]) == ["Foo", "Foo-x"]
    assert labels(["a/m.gguf", "b/m.gguf"]) == ["a/m.gguf", "b/m.gguf"]


class _Fake:
    """What `Ahead` needs of a model."""

    def __init__(self, spec: str) -> None:
        self.name = spec
        self.closed = False

    def close(self) -> None:
        self.closed = True


@contextmanager
def opener(made: list[_Fake], gate: threading.Barrier) -> Iterator[Any]:
    lock, now = threading.Lock(), [0, 0]

    def open(spec: str) -> Any:
        with lock:
            now[0] += 1
            now[1] = max(now)
        gate.wait(10)
        with lock:
            now[0] -= 1
        made.append(_Fake(spec))
        return made[-1]

    yield open
    assert now[1] <= WORKERS + 1


def test_headers_are_opened_side_by_side_and_once() -> None:
    """None is opened before as many are under way as there are workers; what nobody took is closed."""
    specs = [f"hf://o/r/{n}.gguf" for n in range(3 * WORKERS)]
    made: list[_Fake] = []
    with opener(made, threading.Barrier(WORKERS)) as open, Ahead(specs, open) as ahead:
        for spec in specs[: 2 * WORKERS]:
            assert ahead(spec).name == spec
    assert sorted(x.name for x in made) == sorted({x.name for x in made})


def test_an_error_goes_to_who_asks_for_it() -> None:
    def open(spec: str) -> Any:
        if "bad" in spec:
            raise gguftool.MissingFile(spec)
        return _Fake(spec)

    with Ahead(["hf://o/r/good.gguf", "hf://o/r/bad.gguf"], open) as ahead:
        assert ahead("hf://o/r/good.gguf").name == "hf://o/r/good.gguf"
        with pytest.raises(gguftool.MissingFile):
            ahead("hf://o/r/bad.gguf")


def test_the_page_of_a_repository_is_the_repository(site: Site) -> None:
    few(site, "BF16", "Q4_0", "Q6_K")
    spec = f"{site.url}/{REPO}"
    for page in (spec, f"{spec}/", f"{spec}/tree/main", f"{spec}?show=1"):
        there = several(page)
        assert there is not None
        assert [x.name for x in there.models] == [path_of("BF16"), path_of("Q4_0"), path_of("Q6_K")]
        assert there.models[1].spec == f"{SPEC}/{path_of('Q4_0')}"
    folder = collection(f"{SPEC}/BF16")
    assert folder is not None
    assert [len(x.files) for x in folder.models] == [3]
    assert collection(f"{site.url}/{REPO}/tree/main/BF16") is not None
    assert collection(f"{site.url}/d/m.gguf") is None


def test_tags_of_ollama(cli: Any, tmp_path: Path) -> None:
    for tag, kind in (("q6", "Q6_K"), ("q4", "Q4_0")):
        stores.ollama(tmp_path / "ollama", f"registry.ollama.ai/library/tiny/{tag}", model(kind).bytes())
    found = cli("plan", "ollama://tiny", *ROOMY, "--format", "json")
    assert found.code == 0, found.err
    assert [r["name"] for r in found.json["models"]] == ["tiny:q6", "tiny:q4"]
    assert [c[:3] for c in found.json["commands"]] == [["gguftool", "launch", "ollama://tiny:q6"]]
    assert cli("plan", "ollama://none", *ROOMY).code == 2


def test_a_folder_of_a_bucket(cli: Any, memory: Any) -> None:
    for kind in ("Q6_K", "Q4_0"):
        memory.pipe(f"/tiny/{path_of(kind)}", files()[path_of(kind)])
    found = cli("plan", "memory://tiny/", *ROOMY, "--format", "json")
    assert found.code == 0, found.err
    assert [(r["name"], r["standing"]) for r in found.json["models"]] == [
        (path_of("Q6_K"), "fits"), (path_of("Q4_0"), "fits"),
    ]  # fmt: skip
    [fetch] = found.json["commands"]
    assert fetch[:2] == ["python3", "-c"]
    assert f"memory://tiny/{path_of('Q6_K')}" in fetch[2]
    refused = cli("pull", "memory://tiny/x.gguf")
    assert refused.code == 2
    assert "is not on the Hub" in refused.err
    assert "python3 -c" in refused.err
