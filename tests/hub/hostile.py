"""A server on 127.0.0.1 that does what a hostile or sick one does, by the first word of the path. It ends by itself."""

from __future__ import annotations

import gzip
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.build import llama

DATA = llama().bytes()
LIFE = 60.0
"""Seconds after which no behaviour goes on, whatever the test does."""


def head(status: str, *rows: tuple[str, object]) -> bytes:
    text = f"HTTP/1.1 {status}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in rows) + "\r\n"
    return text.encode("latin-1")


@dataclass
class Asked:
    """One request, and the connection to answer it on."""

    sock: socket.socket
    first: int
    last: int
    port: int
    path: str

    @property
    def part(self) -> bytes:
        return DATA[self.first : self.last + 1]

    @property
    def range(self) -> tuple[str, object]:
        return "Content-Range", f"bytes {self.first}-{self.last}/{len(DATA)}"

    def say(self, data: bytes) -> None:
        self.sock.sendall(data)

    def slowly(self, data: bytes, pause: float = 0.05) -> None:
        end = time.monotonic() + LIFE
        for at in range(len(data)):
            self.say(data[at : at + 1])
            time.sleep(pause)
            if time.monotonic() > end:
                return

    def ever(self, data: bytes) -> None:
        end = time.monotonic() + LIFE
        while time.monotonic() < end:
            self.say(data)


Act = Callable[[Asked], None]


def partial(*rows: tuple[str, object]) -> Act:
    """206 with these headers; the bytes of the range follow."""
    return lambda a: a.say(head("206 P", *rows) + a.part)


def whole(*rows: tuple[str, object]) -> Act:
    return lambda a: a.say(head("200 OK", *rows) + DATA)


def chunked(body: bytes) -> Act:
    return lambda a: a.say(head("206 P", a.range, ("Transfer-Encoding", "chunked")) + body)


def total(text: str) -> Act:
    return lambda a: a.say(head("206 P", ("Content-Range", text), ("Content-Length", len(a.part))) + a.part)


def busy(wait: str) -> Act:
    return lambda a: a.say(head("503 X", ("Retry-After", wait), ("Content-Length", 0)))


def to(place: str) -> Act:
    """A redirect; PORT stands for the port of this server."""
    return lambda a: a.say(head("302 F", ("Location", place.replace("PORT", str(a.port))), ("Content-Length", 0)))


def bytes_at_a_time(n: int, of: int) -> Act:
    def act(a: Asked) -> None:
        part = (a.part + bytes(n))[:n]
        a.say(head("206 P", ("Content-Range", f"bytes {a.first}-{a.first + n - 1}/{of}"), ("Content-Length", n)) + part)

    return act


def reset(a: Asked) -> None:
    a.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


_ZIPPED = gzip.compress(b"GGUF" + bytes(10_000_000))

SUPERSCRIPT, ARABIC, DIGITS = "\xb2", "\xb9\xb2\xb3", "9" * 5000

NUMBERS: dict[str, Act] = {
    "badlen": whole(("Content-Length", "abc")),
    "neglen": whole(("Content-Length", "-5")),
    "pluslen": whole(("Content-Length", "+5")),
    "hexlen": whole(("Content-Length", "0x10")),
    "underlen": whole(("Content-Length", "1_000")),
    "suplen": whole(("Content-Length", SUPERSCRIPT)),
    "expolen": whole(("Content-Length", "1e999")),
    "emptylen": whole(("Content-Length", "")),
    "twolen": whole(("Content-Length", "5"), ("Content-Length", "6")),
    "hugelen": whole(("Content-Length", DIGITS)),
    "len80": whole(("Content-Length", 1 << 80)),
    "neglen206": lambda a: a.say(head("206 P", a.range, ("Content-Length", "-1")) + a.part),
    "hugelen206": lambda a: a.say(head("206 P", a.range, ("Content-Length", DIGITS)) + a.part),
    "hugecr": total("bytes 0-9/" + DIGITS),
    "crneg": total("bytes 0-9/-5"),
    "crfirst": total(f"bytes {SUPERSCRIPT}-9/100"),
    "crlast": total(f"bytes 0-{DIGITS}/100"),
    "crsup": total(f"bytes 0-9/{ARABIC}"),
    "cr80": total(f"bytes 0-9/{1 << 80}"),
    "crnone": total(""),
    "crword": total("bytes x-y/z"),
    "crback": total("bytes 0-9/5"),
    "crstar": total("bytes */100"),
    "cr416": lambda a: a.say(head("416 R", ("Content-Range", "bytes */" + DIGITS), ("Content-Length", 0))),
    "cr416neg": lambda a: a.say(head("416 R", ("Content-Range", "bytes */-1"), ("Content-Length", 0))),
    "chunkbad": chunked(b"ZZZ\r\nfoo"),
    "chunkneg": chunked(b"-5\r\nfoo"),
    "chunkplus": chunked(b"+5\r\nfoooo\r\n0\r\n\r\n"),
    "chunk0x": chunked(b"0x5\r\nfoooo\r\n0\r\n\r\n"),
    "chunkunder": chunked(b"1_0\r\nfoo"),
    "chunkempty": chunked(b"\r\n\r\n\r\n"),
    "chunksup": chunked(b"\xb2\r\nfoo"),
    "chunkhuge": chunked(b"F" * 70_000),
    "chunkfff": chunked(b"F" * 39 + b"\r\nfoo"),
    "chunkend": chunked(b"3\r\nfooXXXX"),
    "chunktrail": chunked(b"0\r\n" + b"X: y\r\n" * 20_000),
    "status9": lambda a: a.say(b"HTTP/1.1 999999 X\r\n\r\n"),
    "statussup": lambda a: a.say(b"HTTP/1.1 2\xb20 X\r\n\r\n"),
    "statusneg": lambda a: a.say(b"HTTP/1.1 -20 X\r\n\r\n"),
}
"""A number that is none; its name says where it stands."""

WAITS: dict[str, Act] = {
    f"retry{no}": busy(said)
    for no, said in enumerate((SUPERSCRIPT, "-5", "1e999", "9" * 400, DIGITS, "nan", "inf", "", "soon", "0x10", "1_0"))
}

SLOW: dict[str, Act] = {
    "loris": lambda a: (a.say(head("206 P", a.range, ("Content-Length", len(a.part)))), a.slowly(a.part))[0],
    "lorishdr": lambda a: (a.say(b"HTTP/1.1 206 P\r\nX: "), a.slowly(b"a" * 5000))[0],
    "lorisstatus": lambda a: a.slowly(b"HTTP/1.1 206 " + b"P" * 5000),
    "lorisrows": lambda a: (a.say(b"HTTP/1.1 206 P\r\n"), a.slowly(b"X: y\r\n" * 500))[0],
    "loris1xx": lambda a: a.slowly(b"HTTP/1.1 100 C\r\n\r\n" * 100),
    "lorischunk": lambda a: (chunked(b"")(a), a.slowly(b"1\r\nG\r\n" * 500))[0],
    "lorischunksize": lambda a: (chunked(b"")(a), a.slowly(b"0" * 5000))[0],
    "loriserror": lambda a: (a.say(head("500 E", ("Content-Length", 190))), a.slowly(b"x" * 190))[0],
    "lorisredirect": lambda a: (
        a.say(head("302 F", ("Location", a.path), ("Content-Length", 500))), a.slowly(b"x" * 500),
    )[0],
    "silent": lambda a: time.sleep(8),
    "silentbody": lambda a: (a.say(head("206 P", a.range, ("Content-Length", len(a.part)))), time.sleep(8))[0],
    "lateredirect": lambda a: (time.sleep(0.4), to(a.path + "x")(a))[0],
}  # fmt: skip
"""What goes on far longer than anybody waits."""

ENDLESS: dict[str, Act] = {
    "onebyte": bytes_at_a_time(1, len(DATA)),
    "onebyte50g": bytes_at_a_time(1, 50 << 30),
    "tenbytes": bytes_at_a_time(10, 50 << 30),
    "endless1xx": lambda a: a.ever(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "endlesshdr": lambda a: (a.say(b"HTTP/1.1 206 P\r\n"), a.ever(b"X: " + b"a" * 6000 + b"\r\n"))[0],
    "longhdr": lambda a: (a.say(b"HTTP/1.1 206 P\r\nX: "), a.ever(b"a" * 60000))[0],
    "endlessstatus": lambda a: a.ever(b"HTTP/1.1 206 "),
    "endlesschunks": lambda a: (chunked(b"")(a), a.ever(b"1\r\nG\r\n" * 1000))[0],
    "endlessext": lambda a: (chunked(b"")(a), a.ever(b"1;" + b"x" * 60000))[0],
    "loop": lambda a: to(a.path)(a),
    "longer": lambda a: to(a.path + "x")(a),
}
"""What never ends, at full speed."""

PLACES: dict[str, Act] = {
    f"loc{no}": to(place)
    for no, place in enumerate((
        "http://[::1/x", "http://127.0.0.1:99999/x", "http://127.0.0.1:-1/x", "http://127.0.0.1:abc/x",
        f"http://127.0.0.1:{SUPERSCRIPT}/x", f"http://127.0.0.1:{DIGITS}/x", "http://127.0.0.1:0/x", "http://:80/x",
        "http:///x", "http://", "//", "//[", "http://[]/", "http://[zz]/x", "http://[v1.x]/", "file:///etc/passwd",
        "ftp://127.0.0.1/x", "gopher://127.0.0.1/x", "javascript:1", "http://\xff/x", "http://a b/", "http://x\x01/",
        "http://%zz:80:90/", "http://" + "a" * 300 + "/x", "http://a..b/x", "hTTp://[::ffff:1.2.3.4.5]/", "",
        "http://user:geheim@[::1/x", "http://user:geheim@127.0.0.1:1_0/x",
    ))
}  # fmt: skip
"""Redirects to what is no web address."""

INNER: dict[str, Act] = {
    f"inner{no}": to(place)
    for no, place in enumerate((
        "http://169.254.169.254/latest/meta-data/iam", "http://[fe80::1]/", "http://[fe80::1%25lo]/",
        "http://2852039166/latest", "http://0xa9fea9fe/", "http://0251.0376.0251.0376/", "http://169.254.43518/",
        "http://[::ffff:169.254.169.254]/", "http://[::ffff:a9fe:a9fe]/", "http://[64:ff9b::a9fe:a9fe]/",
        "http://[2002:a9fe:a9fe::1]/",
    ))
}  # fmt: skip
"""Redirects to link-local addresses, however they are written."""

ODD: dict[str, Act] = {
    "garbage": lambda a: a.say(b"\x00\xff\x1b[31m garbage\r\n\r\n"),
    "close": lambda a: None,
    "reset": reset,
    "gzip": lambda a: a.say(head("206 P", a.range, ("Content-Encoding", "gzip"), ("Content-Length", 9)) + _ZIPPED),
    "coding": lambda a: a.say(head("206 P", a.range, ("Transfer-Encoding", "gzip, chunked")) + _ZIPPED),
    "range2": lambda a: a.say(head("206 P", ("Content-Range", f"bytes 5-9/{len(DATA)}")) + b"GGUFx"),
    "s304": lambda a: a.say(head("304 N")),
    "s401": lambda a: a.say(head("401 N", ("WWW-Authenticate", "Digest realm"), ("Content-Length", 0))),
    "s407": lambda a: a.say(head("407 N", ("Proxy-Authenticate", "Basic"), ("Content-Length", 0))),
    "s404": lambda a: a.say(head("404 N", ("Content-Length", 30)) + b"\x1b[31mred\x1b]0;t\x07 \xe2\x80\xae evil...."),
    "xerr": lambda a: a.say(head("403 N", ("X-Error-Message", "\x1b[31mred\x9b31m"), ("Content-Length", 0))),
    "unending200": lambda a: a.say(head("200 OK")),
}

ACTS = NUMBERS | WAITS | SLOW | ENDLESS | PLACES | INNER | ODD
GOOD: dict[str, Act] = {
    "ok": lambda a: a.say(head("206 P", a.range, ("Content-Length", len(a.part))) + a.part),
    "okchunked": lambda a: chunked(b"%x;q=1\r\n%b\r\n0\r\nT: 1\r\n\r\n" % (len(a.part), a.part))(a),
    "okopen": lambda a: a.say(head("206 P", a.range) + a.part),
    "ok1xx": lambda a: a.say(head("103 E", ("Link", "x")) + head("206 P", a.range) + a.part),
    "cross": to("http://localhost:PORT/ok.gguf"),
    "here": to("http://127.0.0.1:PORT/ok.gguf"),
    "decimal": to("http://2130706433:PORT/ok.gguf"),
    "relative": to("/ok.gguf"),
}


@dataclass
class Hostile:
    """The running server.

    Attributes:
        port: its port.
        asked: first lines and headers of the requests.
    """

    port: int
    asked: list[str] = field(default_factory=list)

    def url(self, name: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}/{name}/m.gguf"


def _answer(sock: socket.socket, site: Hostile) -> None:
    try:
        sock.settimeout(LIFE)
        request = b""
        while b"\r\n\r\n" not in request:
            data = sock.recv(65536)
            if not data:
                return
            request += data
        text = request.decode("latin-1")
        site.asked.append(text)
        path = text.split(" ")[1]
        rows = dict(line.lower().split(": ", 1) for line in text.split("\r\n")[1:] if ": " in line)
        first, _, last = rows.get("range", "bytes=0-0").removeprefix("bytes=").partition("-")
        asked = Asked(sock, int(first), min(int(last), len(DATA) - 1), site.port, path)
        name = path.strip("/").split("/")[0].split(".")[0]
        (ACTS | GOOD).get(name, ODD["close"])(asked)
    except OSError:
        pass
    finally:
        sock.close()


@contextmanager
def serve() -> Iterator[Hostile]:
    """Run it for the length of a with block."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(50)
        site = Hostile(listening.getsockname()[1])

        def run() -> None:
            while True:
                try:
                    sock, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=_answer, args=(sock, site), daemon=True).start()

        threading.Thread(target=run, daemon=True).start()
        yield site
        listening.shutdown(socket.SHUT_RDWR)
