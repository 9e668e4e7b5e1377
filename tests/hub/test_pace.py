"""Servers that are asked too often, and stamps of what they have."""

from __future__ import annotations

import json
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace

import pytest

from gguftool import hub
from gguftool.errors import ToolFailed
from gguftool.fleet.scan import scan
from gguftool.hub import api, http, pace, stamps
from gguftool.hub.api import LfsRecord
from gguftool.hub.http import HttpRange
from tests.build import llama
from tests.hub.server import Site


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time that passes only while somebody sleeps; how long they slept."""
    slept: list[float] = []

    class Time:
        monotonic = staticmethod(lambda: sum(slept))
        time = staticmethod(lambda: 1_000_000.0 + sum(slept))
        sleep = staticmethod(slept.append)

    monkeypatch.setattr(pace, "time", Time)
    monkeypatch.setattr(pace, "_closed", {})
    monkeypatch.setattr(stamps, "_told", {})
    return slept


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": formatdate(1_000_090, usegmt=True)}, 90.0),
        ({"retry-after": "soon"}, 0.0),
        ({"retry-after": "-5"}, 0.0),
        ({"ratelimit": '"resolvers";r=0;t=55'}, 55.0),
        ({"ratelimit": '"resolvers";r=12;t=55'}, 0.0),
        ({}, 0.0),
    ],
)
def test_how_long_is_asked_for(headers: dict[str, str], seconds: float):
    assert pace.asked(headers) == seconds


def test_who_looks_at_thousands_waits_as_long_as_is_asked(site: Site, clock: list[float]):
    site.files["/x"] = b"abc"
    site.fail = [429, 429, 429, 429, 429]
    site.retry = "100"
    with hub.patient():
        assert HttpRange(site.url + "/x").read_at(0, 3) == b"abc"
    assert 500 <= sum(clock) < 510


def test_who_looks_at_one_is_told(site: Site, clock: list[float], monkeypatch):
    site.files["/x"] = b"abc"
    site.fail = [429] * 9
    site.retry = "100"
    waits: list[float] = []
    monkeypatch.setattr(http, "time", SimpleNamespace(sleep=waits.append))
    with pytest.raises(ToolFailed) as caught:
        HttpRange(site.url + "/x").read_at(0, 3)
    assert caught.value.hint == "the server asks to wait 100 s"
    assert waits == [http.LONGEST_WAIT] * (http.TRIES - 1)
    assert not clock


def test_a_server_that_never_has_enough_of_waiting_is_given_up(site: Site, monkeypatch):
    monkeypatch.setattr(http, "time", SimpleNamespace(sleep=lambda seconds: None))
    site.files["/x"] = b"abc"
    site.fail = [429] * 100
    site.retry = "100"
    with hub.patient(), pytest.raises(ToolFailed, match="429"):
        HttpRange(site.url + "/x").read_at(0, 3)


def test_what_the_library_of_the_hub_gives_up_is_waited_for(clock: list[float]):
    """huggingface-hub tries a few times by itself, within seconds; a window of the Hub is five minutes."""

    class TooMany(Exception):
        response = SimpleNamespace(status_code=429, headers={"RateLimit": '"api";r=0;t=250'})

    answers = iter([TooMany(), TooMany(), None])

    def ask() -> list[LfsRecord]:
        if error := next(answers):
            raise error
        return [LfsRecord("x.gguf", 1, None)]

    with hub.patient():
        assert len(api._in_time(ask)) == 1
    assert 500 <= sum(clock) < 510


def test_a_stamp_costs_one_small_answer(site: Site, storage: Site):
    site.files["/x.gguf"] = llama().bytes()
    first = hub.stamp(site.url + "/x.gguf")
    assert first is not None
    assert site.body <= 1
    site.files["/x.gguf"] = llama(layers=2).bytes()
    assert hub.stamp(site.url + "/x.gguf") != first
    site.redirect = storage.url
    site.repos["o/r"] = {"x.gguf": llama().bytes()}
    assert hub.stamp("hf://o/r/x.gguf") is not None
    assert not storage.log
    assert hub.stamp(site.url + "/none.gguf") is None


def test_rows_of_a_repository_are_kept_until_it_changes(site: Site, cli, tmp_path: Path):
    site.repos["o/r"] = {f"{i}.gguf": llama(layers=i + 1).bytes() for i in range(2)}
    kept = tmp_path / "rows.jsonl"
    before = cli("scan", "--resume", kept, "--format", "json", "hf://o/r").json["models"]
    assert all(row["stamp"] for row in before)
    site.log.clear()
    again = cli("scan", "--resume", kept, "--format", "json", "hf://o/r").json["models"]
    assert again == before
    # The listing says of all of them that nothing changed.
    assert [r.path for r in site.log if "/resolve/" in r.path] == []
    site.repos["o/r"]["1.gguf"] = llama(layers=3).bytes()
    site.log.clear()
    third = cli("scan", "--resume", kept, "--format", "json", "hf://o/r").json["models"]
    assert {r.path.rpartition("/")[2] for r in site.log if "/resolve/" in r.path} == {"1.gguf"}
    assert [row["facts"]["tensors"] for row in third] != [row["facts"]["tensors"] for row in before]
    assert json.loads(kept.read_text().splitlines()[0])["path"] == "hf://o/r/0.gguf"


def test_a_scan_that_is_refused_and_ended_goes_on_and_looks_at_nothing_twice(site: Site, clock, tmp_path: Path):
    """What benchmarks/fleet_hub.py shows with 100,000 files (docs/fleets.md)."""
    data = llama().bytes()
    for repo in range(4):
        site.repos[f"o/r{repo}"] = {f"{i}.gguf": data for i in range(10)}
    asked: list[str] = []

    def refuse(path: str) -> float | tuple[int, dict[str, str]]:
        if "/resolve/" not in path:
            return 0.0
        asked.append(path)
        return (429, {"RateLimit": '"resolvers";r=0;t=200'}) if len(asked) % 7 == 0 else 0.0

    site.meddle = refuse
    kept = tmp_path / "rows.jsonl"
    first = scan(["hf://o"], jobs=1, lint=False, resume=kept)
    some = [next(first) for _ in range(15)]
    first.close()
    rest = list(scan(["hf://o"], jobs=1, lint=False, resume=kept))
    assert len(rest) == 40
    assert [row for row in (*some, *rest) if row["error"]] == []
    refused = len(asked) // 7
    assert len(asked) <= 41 + refused
    assert len(set(asked)) == 40
    assert 200 * refused <= sum(clock) < 220 * refused
