"""What a scan takes from options, configuration and baseline, and what --resume keeps."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gguftool.fleet.kept import fits, settings
from gguftool.fleet.row import Row
from gguftool.fleet.want import Want, look
from tests.build import llama

RULE = "kv-cache-type-missing"


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (folder := tmp_path / "models").mkdir()
    for name in ("a", "b"):
        llama().write(folder / f"{name}.gguf")
    return folder


def rules(done) -> set[str]:
    return {f["rule"] for row in done.json["models"] for f in row["findings"]}


def test_select_and_ignore(cli, two: Path):
    everything = rules(cli("scan", two, "--format", "json"))
    assert RULE in everything
    assert rules(cli("scan", two, "--select", RULE, "--format", "json")) == {RULE}
    assert rules(cli("scan", two, "--ignore", RULE, "--format", "json")) == everything - {RULE}
    done = cli("scan", two, "--select", "kv-cache-type-mising")
    assert (done.code, RULE in done.err) == (2, True)


def test_configuration(cli, two: Path, tmp_path: Path):
    (tmp_path / "gguftool.toml").write_text(
        f'[lint]\nselect = ["{RULE}"]\n[scan]\nfail-on = "warning"\nexclude = ["b*"]\n'
    )
    done = cli("scan", two, "--format", "json")
    assert (done.code, len(done.json["models"]), rules(done)) == (1, 1, {RULE})
    assert cli("scan", two, "--fail-on", "never").code == 0
    assert len(cli("scan", two, "--no-config", "--format", "json").json["models"]) == 2
    (tmp_path / "other.toml").write_text('[scan]\nexlude = ["b*"]\n')
    done = cli("scan", two, "--config", "other.toml")
    assert (done.code, "exclude" in done.err) == (2, True)


def test_policy(cli, two: Path, tmp_path: Path):
    (tmp_path / "policy.toml").write_text('architectures = ["qwen2"]\n[values]\n"general.name" = "x"\n')
    for jobs in ("1", "2"):
        for name in "cdef":
            llama().write(two / f"{name}.gguf")
        done = cli("scan", two, "--jobs", jobs, "--policy", "policy.toml", "--fail-on", "error", "--format", "json")
        assert done.code == 1
        assert any(rule.startswith("policy") for rule in rules(done))


@pytest.mark.parametrize("form", ["json", "jsonl"])
@pytest.mark.parametrize("command", ["lint", "scan"])
def test_baseline(cli, two: Path, tmp_path: Path, form: str, command: str):
    quiet = ("--exit-zero",) if command == "lint" else ("--fail-on", "never")
    (tmp_path / "known.json").write_text(cli(command, *quiet, two, "--format", form).out)
    assert cli("scan", "--fail-on", "warning", two).code == 1
    done = cli("scan", "--fail-on", "warning", "--baseline", "known.json", two, "--format", "json")
    assert (done.code, rules(done)) == (0, set())
    assert {n for row in done.json["models"] for n in row["lint"].values()} == {0}
    model = llama()
    model.replace("llama.context_length", 4096)
    model.write(two / "c.gguf")
    done = cli("scan", "--fail-on", "warning", "--baseline", "known.json", two, "--format", "json")
    assert done.code == 1
    assert [row["path"] for row in done.json["models"] if row["findings"]] == [str(two / "c.gguf")]


def test_another_report_is_no_baseline(cli, two: Path, tmp_path: Path):
    (tmp_path / "x.json").write_text('{"format": "gguftool.dump/1"}')
    assert cli("scan", "--baseline", "x.json", two).code == 2


def test_kept_rows_are_of_the_same_settings(cli, two: Path):
    def kept(*more: str) -> int:
        cli("scan", two, "--resume", "rows.jsonl", *more)
        return len(Path("rows.jsonl").read_text().splitlines())

    assert [kept(), kept(), kept("--no-lint"), kept("--no-lint"), kept("--ignore", RULE), kept("--select", RULE)] == [
        2, 2, 4, 4, 6, 8
    ]  # fmt: skip
    # What only says how a run ends, or which rows are shown, makes no row another.
    assert kept("--fail-on", "error") == 8
    assert len({settings(want) for want in (Want(), Want(build=8179), Want(lint=False), Want(bill=True))}) == 4


def test_a_row_fits_what_is_said_of_rows(two: Path):
    row = json.loads(json.dumps(look(str(two / "a.gguf"), Want())))
    assert fits(row)
    assert set(row) == set(Row.__annotations__)
    for name in row:
        assert not fits({**row, name: object()})
        assert not fits({key: value for key, value in row.items() if key != name})


@pytest.mark.parametrize(
    "text", ['{"path": 1}\n', "{" * 5000 + "\n", '{"a": 1e999}\n', '{"x": "\\ud800"}\n', '{"settings": []}', "{\0}\n"]
)
def test_a_hostile_file_of_rows(cli, two: Path, text: str):
    Path("rows.jsonl").write_text(text)
    assert cli("scan", "--no-lint", "--resume", "rows.jsonl", two).code == 0
    assert len(Path("rows.jsonl").read_text().splitlines()) == 3


def test_rows_that_are_not_theirs(cli, two: Path):
    cli("scan", two, "--resume", "rows.jsonl")
    row = json.loads(Path("rows.jsonl").read_text().splitlines()[0])
    for change in ({"facts": {"size": "x"}}, {"findings": [1]}, {"files": "a"}, {"ok": 1}, {"path": ["a"]}):
        Path("rows.jsonl").write_text(json.dumps(row | change) + "\n")
        assert cli("scan", two, "--resume", "rows.jsonl", "--format", "html").code == 0


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))


def test_a_page_fetches_nothing_and_runs_nothing_of_a_file(cli, two: Path):
    model = llama()
    model.replace("general.architecture", "<img src=x onerror=alert(1)>")
    model.write(two / "<script>x.gguf")
    done = cli("scan", two, "--format", "html")
    page = Page()
    page.feed(done.out)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert not any(name in ("src", "href", "onclick", "onerror") for _, attrs in page.tags for name in attrs)
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert re.search("script-src 'sha256-[^']+'", policy)
    assert tags.count("tr") >= 3 + 3


def test_a_summary(cli, two: Path):
    llama(layers=2).truncate(-500).write(two / "cut.gguf")
    text = cli("scan", two, "--format", "markdown").out
    assert "| architecture | models |" in text
    assert "| llama | 3 |" in text
    worst = text.partition("| worst |")[2].splitlines()
    assert "cut.gguf" in worst[2]
    assert "3 models, " in text
