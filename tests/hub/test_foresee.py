"""What a remote header costs: at most 1.2 times its bytes (or one first read), and few round trips."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from gguftool import hub
from gguftool.format import foresee
from gguftool.format.foresee import FIRST_READ
from gguftool.format.parse import parse
from tests.build import GGUF
from tests.hub.headers import Counting, every, header, vocabulary
from tests.hub.server import Site
from tests.real_models import GEMMA3, SMOLLM2, ensure


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foresee, "_MET", {})


HEADERS = list(every())
SOME = [row for row in HEADERS if "50000" not in row[0]][::2] + [row for row in HEADERS if "50000" in row[0]][::5]


@pytest.mark.parametrize(("name", "made"), SOME, ids=[name for name, _ in SOME])
def test_a_header_of_any_size_and_order_costs_little_more_than_its_bytes(name: str, made: Callable[[], bytes]):
    """All of them: ``benchmarks/remote.py --made``."""
    source = Counting(made())
    found = parse(source)
    assert found.end <= len(source.header)
    assert source.fetched <= max(1.2 * len(source.header), FIRST_READ)
    most = 16 if "arrays" in name else 5 if "reversed" in name or "behind" in name else 4
    assert source.requests <= most


def test_what_real_models_look_like_takes_two_or_three_round_trips():
    for kind, n in (("gpt2", 50_000), ("llama", 32_000)):
        source = Counting(header(vocabulary(kind, n), 291, template=5000))
        parse(source)
        assert source.requests <= 3
    source = Counting(header([], 900))
    parse(source)
    assert source.requests == 1


def test_a_vocabulary_that_was_met_takes_two():
    data = header(vocabulary("gpt2", 40_000), 291, template=5000)
    parse(Counting(data))
    again = Counting(header(vocabulary("gpt2", 40_000), 400, template=3000))
    parse(again)
    assert again.requests == 2
    assert again.fetched <= 1.05 * len(again.header)


@pytest.mark.real
@pytest.mark.parametrize("model", [SMOLLM2, GEMMA3])
def test_real_headers_take_two_requests(model, site: Site):
    with open(ensure(model), "rb") as f:
        data = f.read(12 << 20)
    site.files["/x.gguf"] = data + bytes(1 << 20)
    with hub.open_any(site.url + "/x.gguf", strict=False) as m:
        end = m.header.data_offset
    assert len(site.log) == 2
    assert sum(_bytes(r) for r in site.sent_ranges) <= 1.06 * end


def _bytes(said: str) -> int:
    first, _, last = said.removeprefix("bytes=").partition("-")
    return int(last) - int(first) + 1


def test_a_count_that_lies_costs_no_more_than_the_file(site: Site):
    data = bytearray(header(vocabulary("llama", 3000), 10))
    at = data.index(b"tokenizer.ggml.tokens") + len("tokenizer.ggml.tokens") + 4
    assert struct.unpack_from("<IQ", data, at) == (8, 3000)
    struct.pack_into("<Q", data, at + 4, 1 << 40)
    site.files["/x.gguf"] = bytes(data)
    m = hub.open_any(site.url + "/x.gguf", strict=False)
    assert [p.kind for p in m.problems] == ["truncated"]
    assert sum(_bytes(r) for r in site.sent_ranges) <= len(data) + FIRST_READ


def test_a_server_without_ranges_gives_the_header_off_the_start(site: Site):
    site.ranges = False
    data = header(vocabulary("llama", 30_000), 30)
    site.files["/x.gguf"] = data + bytes(30 * 32 * 4 * 4)
    with hub.open_any(site.url + "/x.gguf", strict=False) as m:
        assert len(m.tensors) == 30
    assert len(site.log) <= 3


def test_one_key_is_read_no_further_than_it_stands(site: Site, cli):
    data = header(vocabulary("llama", 30_000), 30)
    site.files["/x.gguf"] = data + bytes(30 * 512)
    shown = cli("dump", "--raw", "general.name", site.url + "/x.gguf")
    assert (shown.code, shown.out.strip()) == (0, "a model")
    assert site.sent_ranges == [f"bytes=0-{FIRST_READ - 1}"]
    # A short name may be an exact key further on, so the whole header is read for it.
    assert cli("dump", "--raw", "key_3", site.url + "/x.gguf").out.strip() == "3"
    assert cli("dump", "--raw", "nothing", site.url + "/x.gguf").code == 2


def test_a_key_of_a_later_shard_is_that_of_the_set(site: Site, cli):
    first = GGUF("llama").kv("general.name", "of the first").shard(0, 2, 2).tensor("a")
    second = GGUF().kv("general.name", "of the second").shard(1, 2, 2).tensor("b")
    for no, made in enumerate((first, second), 1):
        site.files[f"/x-{no:05}-of-00002.gguf"] = made.bytes()
    assert cli("dump", "--raw", "general.name", site.url + "/x-00002-of-00002.gguf").out.strip() == "of the first"
