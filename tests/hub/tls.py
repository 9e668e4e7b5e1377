"""A server behind TLS with a certificate that nobody signed, and a proxy that knows CONNECT, both on 127.0.0.1."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def certificate(folder: Path, *names: str) -> Path:
    """A certificate for these names with its key, in one file that is its own authority."""
    x509 = pytest.importorskip("cryptography.x509")
    import datetime
    import ipaddress

    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
    now = datetime.datetime.now(datetime.UTC)
    places = [*map(x509.DNSName, names), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=9))
        .add_extension(x509.SubjectAlternativeName(places), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    path = folder / "certificate.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + secret)
    return path


def _pour(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _joined(a: socket.socket, b: socket.socket) -> None:
    back = threading.Thread(target=_pour, args=(b, a), daemon=True)
    back.start()
    _pour(a, b)
    back.join()


@contextmanager
def _serving(act: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port where each connection is given to a function, in a thread of its own."""

    def one(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            act(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=one, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@contextmanager
def secured(port: int, pem: Path) -> Iterator[int]:
    """The port of a server in front of another one, which speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)

    def act(connection: socket.socket) -> None:
        with (
            context.wrap_socket(connection, server_side=True) as plain,
            socket.create_connection(("127.0.0.1", port)) as behind,
        ):
            _joined(plain, behind)

    with _serving(act) as found:
        yield found


@contextmanager
def proxy(port: int, log: list[bytes], answer: bytes = b"200 OK") -> Iterator[int]:
    """The port of a proxy that connects everybody to one port of this machine, whatever they ask for.

    Args:
        port: where to.
        log: gets the head of each request.
        answer: its status; with another than 200 nobody is connected.
    """

    def act(connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (more := connection.recv(1 << 12)):
                return
            head += more
        log.append(head)
        connection.sendall(b"HTTP/1.1 " + answer + b"\r\n\r\n")
        if answer.startswith(b"200"):
            with socket.create_connection(("127.0.0.1", port)) as there:
                _joined(connection, there)

    with _serving(act) as found:
        yield found
