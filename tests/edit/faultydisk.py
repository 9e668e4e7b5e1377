"""A disk that fails writes on demand: one file in a FUSE file system, for a loop device to lie on. Linux, root.

``python -m tests.edit.faultydisk IMAGE FOLDER CONTROL [RECORD]`` serves ``FOLDER/disk``, backed by IMAGE, until it is
unmounted. While the file CONTROL exists, writes fail with EIO, except those that lie in one of the byte ranges listed
in it (JSON, ``[[start, stop], ...]``): the place of the file system's own journal, which must go on or all stands
still. RECORD gets all that the disk was told, in order: what was written where, and when to keep it (`ENTRY`).

The protocol is that of linux/fuse.h, spoken over /dev/fuse; nothing has to be installed for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import stat
import struct
import sys

_IN = struct.Struct("<IIQQIIIi")  # len, opcode, unique, nodeid, uid, gid, pid, padding
_OUT = struct.Struct("<IiQ")
_ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
_LOOKUP, _FORGET, _GETATTR, _SETATTR, _OPEN, _READ, _WRITE, _STATFS, _RELEASE = 1, 2, 3, 4, 14, 15, 16, 17, 18
_FSYNC, _FLUSH, _INIT, _OPENDIR, _READDIR, _RELEASEDIR, _ACCESS, _DESTROY, _BATCH_FORGET = (
    20, 25, 26, 27, 28, 29, 34, 38, 42,
)  # fmt: skip
_DIRECT_IO = 1
_MOST = 128 << 10
ENTRY = struct.Struct("<QI")
"""Of a record: place and length of what was written, which follows; `FLUSH`: all before is on the disk for good."""
FLUSH = ENTRY.pack((1 << 64) - 1, 0)


class Server:
    """Answers the kernel, one request after the other."""

    def __init__(self, image: str, control: str, record: str, device: int) -> None:
        self.image = os.open(image, os.O_RDWR)
        self.control = control
        self.record = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT) if record else -1
        self.device = device

    def attributes(self, node: int) -> bytes:
        folder = node == 1
        size = 0 if folder else os.fstat(self.image).st_size
        mode = (stat.S_IFDIR | 0o755) if folder else (stat.S_IFREG | 0o600)
        return _ATTR.pack(node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def serve(self) -> None:
        while True:
            try:
                request = os.read(self.device, _MOST + (64 << 10))
            except OSError as e:
                if e.errno == errno.ENODEV:
                    return
                if e.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                raise
            _, opcode, unique, node, *_ = _IN.unpack_from(request)
            if opcode in (_FORGET, _BATCH_FORGET):
                continue
            try:
                number, body = 0, self.answer(opcode, node, request[_IN.size :])
            except OSError as e:
                number, body = -(e.errno or errno.EIO), b""
            with contextlib.suppress(OSError):
                os.write(self.device, _OUT.pack(_OUT.size + len(body), number, unique) + body)
            if opcode == _DESTROY:
                return

    def answer(self, opcode: int, node: int, body: bytes) -> bytes:
        if opcode == _INIT:
            major, minor, ahead = struct.unpack_from("<III", body)
            del major
            return struct.pack("<IIIIHHIIHHI28x", 7, min(minor, 31), ahead, 1 << 5, 8, 6, _MOST, 1, 0, 0, 0)
        if opcode == _LOOKUP:
            if body.split(b"\0")[0] != b"disk":
                raise OSError(errno.ENOENT, "")
            return struct.pack("<QQQQII", 2, 0, 60, 60, 0, 0) + self.attributes(2)
        if opcode in (_GETATTR, _SETATTR):
            return struct.pack("<QII", 60, 0, 0) + self.attributes(node)
        if opcode in (_OPEN, _OPENDIR):
            return struct.pack("<QII", 1, _DIRECT_IO if opcode == _OPEN else 0, 0)
        if opcode == _READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return os.pread(self.image, size, offset)
        if opcode == _WRITE:
            _, offset, size = struct.unpack_from("<QQI", body)
            return struct.pack("<II", self.write(offset, body[40 : 40 + size]), 0)
        if opcode == _STATFS:
            return struct.pack("<QQQQQIII24x", 1 << 20, 1 << 19, 1 << 19, 100, 100, 4096, 255, 4096)
        if opcode == _FSYNC:
            self.note(FLUSH)
            return b""
        if opcode in (_RELEASE, _FLUSH, _RELEASEDIR, _ACCESS, _DESTROY, _READDIR):
            return b""
        raise OSError(errno.ENOSYS, "")

    def write(self, offset: int, data: bytes) -> int:
        try:
            with open(self.control, encoding="utf-8") as f:
                spared = json.load(f)
        except FileNotFoundError:
            spared = None
        if spared is not None and not any(start <= offset < stop for start, stop in spared):
            raise OSError(errno.EIO, "")
        done = os.pwrite(self.image, data, offset)
        self.note(ENTRY.pack(offset, done) + data[:done])
        return done

    def note(self, entry: bytes) -> None:
        if self.record >= 0:
            os.write(self.record, entry)


def mount(device: int, folder: str) -> None:
    """mount(2) of a FUSE file system that ``device`` answers for."""
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,max_read={_MOST}"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"faultydisk", os.fsencode(folder), b"fuse", 0, options.encode()):
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e), folder)


def main(image: str, folder: str, control: str, record: str = "") -> None:
    """Mount, say so, serve."""
    device = os.open("/dev/fuse", os.O_RDWR)
    mount(device, folder)
    print("ready", flush=True)
    Server(image, control, record, device).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
