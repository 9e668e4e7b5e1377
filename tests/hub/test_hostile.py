"""Hostile and sick servers: every answer ends soon, with an error that says what is wrong, never with 70.

What is right is from RFC 9110 and 9112 (numbers are ASCII digits; where a length, a range and a chunk size stand) and
from the rule of the house: a request is over in bounded time, whatever the other side does.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from gguftool import hub, wire
from gguftool.errors import GgufToolError, Refused, ToolFailed
from gguftool.hub import connect, http
from gguftool.hub.http import HttpRange
from gguftool.hub.spot import Reach, reach
from tests.conftest import Result
from tests.hub import hostile
from tests.hub.hostile import ENDLESS, GOOD, INNER, NUMBERS, ODD, PLACES, SLOW, WAITS, Hostile

Cli = Callable[..., Result]


@pytest.fixture(scope="module")
def server() -> Iterator[Hostile]:
    with hostile.serve() as running:
        yield running


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "time", SimpleNamespace(sleep=lambda _seconds: None))
    monkeypatch.setattr(wire, "HEAD_SECONDS", 1.0)
    monkeypatch.setattr(wire, "GRACE_SECONDS", 0.5)


def refusal(server: Hostile, name: str) -> GgufToolError:
    """The error that opening ends with."""
    began = time.monotonic()
    with pytest.raises(GgufToolError) as caught:
        hub.open_any(server.url(name))
    # Three tries of 1.5 s and some load; without a limit it is 8 s to a minute for each of them.
    assert time.monotonic() - began < 7.5, name
    return caught.value


@pytest.mark.parametrize("name", GOOD)
def test_sound_answers_are_read(server: Hostile, name: str) -> None:
    with hub.open_any(server.url(name)) as m:
        assert m.architecture == "llama"


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_is_none(server: Hostile, name: str) -> None:
    assert type(refusal(server, name)) is ToolFailed


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_that_is_no_number_is_no_wait(server: Hostile, name: str) -> None:
    assert "HTTP 503" in str(refusal(server, name))


def test_a_wait_is_bounded(server: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile.ACTS["retrylong"] = hostile.busy("86400")
    waits: list[float] = []
    monkeypatch.setattr(http, "time", SimpleNamespace(sleep=waits.append))
    refusal(server, "retrylong")
    assert waits
    assert max(waits) == http.LONGEST_WAIT


@pytest.mark.parametrize("name", SLOW)
def test_too_slow(server: Hostile, name: str) -> None:
    error = refusal(server, name)
    assert type(error) is ToolFailed
    assert "slow" in str(error)


@pytest.mark.parametrize("name", ENDLESS)
def test_without_end(server: Hostile, name: str) -> None:
    before = len(server.asked)
    assert type(refusal(server, name)) is ToolFailed
    assert len(server.asked) - before <= 2 * max(http.REDIRECTS, http.SHORT_ANSWERS, http.TRIES)


@pytest.mark.parametrize("name", PLACES)
def test_redirects_to_no_address(server: Hostile, name: str) -> None:
    error = refusal(server, name)
    assert type(error) is ToolFailed
    assert "geheim" not in str(error)


@pytest.mark.parametrize("name", INNER)
def test_the_wire_itself_is_reached_from_nowhere_else(server: Hostile, name: str, monkeypatch) -> None:
    """Not even from this machine; and no packet is sent there before that is known."""
    dialled: list[object] = []
    real = connect.dialled
    monkeypatch.setattr(connect, "dialled", lambda rows, clock: (dialled.append(rows), real(rows, clock))[1])
    error = refusal(server, name)
    # A name that this machine cannot resolve (no IPv6) leads nowhere either.
    assert type(error) is Refused or "cannot connect" in str(error)
    assert not any("169.254" in str(row) or "a9fe" in str(row) or "fe80" in str(row) for row in dialled)


@pytest.mark.parametrize("name", ODD)
def test_other_nonsense(server: Hostile, name: str) -> None:
    assert refusal(server, name).exit_code in (2, 3, 4, 6)


@pytest.mark.parametrize("name", ["neglen", "retry0", "loc0", "loris", "lorishdr", "onebyte50g", "inner0", "s404"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_the_program_says_so(server: Hostile, name: str, form: str, cli: Cli) -> None:
    result = cli("verify", server.url(name), "--format", form)
    assert result.code in (2, 4, 6)
    assert "bug" not in result.err
    assert "\x1b[31m" not in result.err + result.out
    assert "zero bytes" not in result.err
    if form == "json":
        assert result.json["errors"]


class TestPublicServer:
    """A server of the open internet: names are answered by a resolver of the test, connections go to this machine."""

    @pytest.fixture(autouse=True)
    def internet(self, server: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names = {"models.test": "93.184.215.14", "cdn.test": "93.184.215.15"}
        real = socket.getaddrinfo

        def resolved(host: str, port: int, **more: object) -> list[object]:
            if host in self.names:
                address = self.names[host]
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                return [(family, socket.SOCK_STREAM, 6, "", (address, port))]
            return real(host, port, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(socket, "getaddrinfo", resolved)
        dial = connect.dialled
        self.dialled: list[str] = []

        def dialled(rows: list[tuple[int, tuple[str, int]]], clock: wire.Clock) -> socket.socket:
            self.dialled.append(rows[0][1][0])
            return dial([(socket.AF_INET, ("127.0.0.1", where[1])) for _, where in rows], clock)

        monkeypatch.setattr(connect, "dialled", dialled)

    def opened(self, server: Hostile, place: str) -> None:
        hostile.ACTS["away"] = hostile.to(place)
        hub.open_any(server.url("away", "models.test")).close()

    @pytest.mark.parametrize("host", [
        "127.0.0.1", "127.1", "127.9.9.9", "2130706433", "0x7f000001", "0177.0.0.1", "localhost", "0.0.0.0", "0",
        "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "2852039166", "224.0.0.1",
        "255.255.255.255", "198.18.0.1", "192.0.2.1", "240.0.0.1", "[::1]", "[::]", "[::ffff:127.0.0.1]",
        "[::ffff:10.0.0.1]", "[::127.0.0.1]", "[fd00:ec2::254]", "[fe80::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
        "[ff02::1]",
    ])  # fmt: skip
    def test_does_not_lead_into_the_network_behind_us(self, server: Hostile, host: str) -> None:
        before = len(server.asked)
        with pytest.raises((Refused, ToolFailed)) as caught:
            self.opened(server, f"http://{host}:PORT/ok/m.gguf")
        assert caught.type is Refused or "cannot connect" in str(caught.value)
        assert len(server.asked) - before <= http.TRIES
        assert set(self.dialled) <= {"93.184.215.14"}

    @pytest.mark.parametrize("inner", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "0.0.0.0", "::1", "::ffff:7f00:1"])
    def test_nor_by_a_name(self, server: Hostile, inner: str) -> None:
        self.names["cdn.test"] = inner
        with pytest.raises(Refused, match="this machine or of the network"):
            self.opened(server, "http://cdn.test:PORT/ok/m.gguf")
        assert inner not in self.dialled

    def test_nor_later_by_its_own_name(self, server: Hostile) -> None:
        source = HttpRange(server.url("okopen", "models.test"))
        assert source.size
        self.names["models.test"] = "127.0.0.1"
        with pytest.raises(Refused):
            source._fetch(0, 10)

    def test_leads_to_another_of_the_open_internet(self, server: Hostile) -> None:
        self.opened(server, "http://cdn.test:PORT/ok/m.gguf")
        assert self.dialled[-1] == "93.184.215.15"

    def test_a_first_address_of_this_machine_leads_to_this_machine(self, server: Hostile) -> None:
        self.names["models.test"] = "10.0.0.5"
        self.opened(server, "http://127.0.0.1:PORT/ok/m.gguf")


def test_https_never_becomes_http() -> None:
    source = HttpRange("https://example.com/x.gguf")
    with pytest.raises(Refused, match="from https to http"):
        source._next(source._home, "http://example.com/x.gguf")
    assert source._next(source._home, "//cdn.example.com/y").url == "https://cdn.example.com/y"


@pytest.mark.parametrize(("address", "kind"), [
    ("1.1.1.1", Reach.PUBLIC), ("2606:4700::1111", Reach.PUBLIC), ("::ffff:1.1.1.1", Reach.PUBLIC),
    ("64:ff9b::101:101", Reach.PUBLIC), ("127.0.0.1", Reach.PRIVATE), ("::1", Reach.PRIVATE), ("::", Reach.PRIVATE),
    ("0.0.0.0", Reach.PRIVATE), ("fc00::1", Reach.PRIVATE), ("fe80::1%eth0", Reach.LINK), ("169.254.0.1", Reach.LINK),
    ("::ffff:169.254.169.254", Reach.LINK), ("2002:a9fe:a9fe::", Reach.LINK), ("100.100.100.200", Reach.PRIVATE),
])  # fmt: skip
def test_reach(address: str, kind: Reach) -> None:
    assert reach(address) is kind


@pytest.mark.parametrize("address", [
    "http://host:abc/x.gguf", "http://[::1/x.gguf", "http://127.0.0.1:99999/x.gguf", "http://127.0.0.1:-1/x.gguf",
    "http://h:\xb2/x.gguf", "http://h:1_0/x.gguf", "http://h:0/x.gguf", "http://:80/x.gguf", "http:///x.gguf", "http://",
    "http://[]/x.gguf", "http://[zz]/x.gguf", "http://a b/x.gguf", f"http://h:{'9' * 5000}/x.gguf", "http://h:80:90/x",
    "http://u:geheim@h:abc/x.gguf", "http://u:geheim@[::1/x.gguf", "https://u:geheim@/x.gguf", "http://h:+80/x",
])  # fmt: skip
@pytest.mark.parametrize("command", ["verify", "dump"])
def test_typing_errors(command: str, address: str, cli: Cli) -> None:
    result = cli(command, address)
    assert result.code == 2
    assert "not a web address" in result.err
    assert "hint: write https://" in result.err
    assert "geheim" not in result.err + result.out


class TestCredentialsInAddresses:
    @pytest.mark.parametrize("name", [
        "ok", "neglen", "loris", "s401", "s404", "retry0", "loc27", "inner0", "close", "onebyte", "here",
    ])  # fmt: skip
    @pytest.mark.parametrize("form", ["text", "json"])
    def test_are_never_shown(self, server: Hostile, form: str, name: str, cli: Cli) -> None:
        commands = [("verify",), ("dump", "--overview"), ("lint",), ("plan",), ("hash",), ("launch",)]
        command = commands[sum(map(ord, name + form)) % len(commands)]
        url = server.url(name).replace("://", "://anna:ge%40heim@")
        result = cli(*command, url, "--format", form)
        assert result.code in (0, 1, 2, 3, 4, 6)
        for secret in ("anna", "heim", "YW5uYTpnZUBoZWlt"):
            assert secret not in result.out + result.err

    @pytest.mark.parametrize("command", ["verify", "dump", "lint", "plan", "hash", "launch", "fix", "compat", "render"])
    def test_by_no_command(self, server: Hostile, command: str, cli: Cli) -> None:
        for name in ("ok", "neglen"):
            result = cli(command, server.url(name).replace("://", "://anna:geheim@"), "--format", "json")
            assert result.code in (0, 1, 2, 3, 4, 6), (command, name, result.err)
            assert "geheim" not in result.out + result.err

    def test_go_to_their_server(self, server: Hostile, cli: Cli) -> None:
        url = server.url("ok").replace("://", "://anna:ge%40heim@")
        with hub.open_any(url) as m:
            assert "anna" not in m.name
        assert "Authorization: Basic YW5uYTpnZUBoZWlt" in server.asked[-1]
        assert cli("dump", "--overview", url).code == 0
        assert "Authorization: Basic YW5uYTpnZUBoZWlt" in server.asked[-1]

    def test_and_to_no_other(self, server: Hostile) -> None:
        hub.open_any(server.url("cross").replace("://", "://anna:geheim@")).close()
        assert "Authorization" in server.asked[-2]
        assert "Authorization" not in server.asked[-1]


class TestProxy:
    def test_is_asked_for_the_whole_address(self, server: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("http_proxy", f"http://bert:wort@127.0.0.1:{server.port}")
        monkeypatch.setenv("no_proxy", "")
        GOOD["http:"] = GOOD["ok"]
        hub.open_any("http://models.invalid/m.gguf").close()
        assert server.asked[-1].startswith("GET http://models.invalid/m.gguf HTTP/1.1\r\nHost: models.invalid\r\n")
        assert "Proxy-Authorization: Basic YmVydDp3b3J0" in server.asked[-1]

    @pytest.mark.parametrize(
        "proxy", ["socks5://bert:geheim@h:1", "http://bert:geheim@h:abc", "http://bert:geheim@[::1"]
    )
    def test_that_is_none(self, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("http_proxy", proxy)
        with pytest.raises(ToolFailed, match="not a proxy") as caught:
            hub.open_any("http://models.invalid/m.gguf")
        assert "geheim" not in str(caught.value)


def test_connections_are_used_again(site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_idle", [])
    site.files["/x"] = bytes(20 << 20)
    dialled: list[object] = []
    real = connect.dialled
    monkeypatch.setattr(connect, "dialled", lambda rows, clock: (dialled.append(rows), real(rows, clock))[1])
    source = HttpRange(site.url + "/x")
    for offset in range(0, 10 << 20, 1 << 20):
        source.read_at(offset, 1 << 20)
    assert source.requests > 2
    assert len(dialled) <= 2
