"""What it costs to read headers over a network: bytes, requests, connections, and seconds at 100 ms a round trip.

``benchmarks/remote.py [FILE|FOLDER …]``: each file is served as the beginning of a model of 8 GiB, by a server on
127.0.0.1 that takes a round trip for a connection and one for a request, and opened by its address in a process of its
own. Files of a folder are one row. Without any, the test models. ``--beside CHECKOUT`` measures that one's package as
well; ``--made`` takes the generated headers of tests/hub/headers.py, without a server; ``--vocabularies FILE …`` prints
the rows of `gguftool.format.vocabularies.KNOWN`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gguftool.format import foresee  # noqa: E402
from gguftool.format.header import Field  # noqa: E402
from gguftool.format.parse import parse  # noqa: E402
from gguftool.format.vocabularies import KNOWN, digest  # noqa: E402
from gguftool.model.tokenlist import sound  # noqa: E402
from gguftool.model.vocab import MERGES, TOKENS  # noqa: E402
from gguftool.source import LocalFile  # noqa: E402
from tests.hub.headers import Counting, every  # noqa: E402
from tests.hub.server import Site, serve  # noqa: E402
from tests.real_models import GEMMA3, SMOLLM2, ensure  # noqa: E402

OPEN = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
os.environ["GGUFTOOL_CACHE"] = "off"
from gguftool import hub
began = time.perf_counter()
for address in sys.argv[2:]:
    hub.open_any(address, strict=False).header
print(time.perf_counter() - began)
"""


class Begun(bytes):
    """The beginning of a large file, whose other bytes nobody should ask for."""

    size = 8 << 30

    @classmethod
    def of(cls, path: Path) -> Begun:
        """A model of which there may be no more than the header."""
        begun = cls(path.read_bytes()[: 20 << 20])
        begun.size = parse(LocalFile(path), strict=False).data_end() or begun.size
        return begun

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, place: slice) -> bytes:
        found = super().__getitem__(place)
        return found + bytes(min(place.stop, len(self)) - place.start - len(found))


def row(site: Site, package: Path, files: list[Path]) -> tuple[int, int, int, float]:
    """Bytes, requests, connections and seconds to open these files by address, one after another."""
    site.files = {f"/{i}/{path.name}.gguf": Begun(path.read_bytes()[: 40 << 20]) for i, path in enumerate(files)}
    site.body, site.connections = 0, 0
    site.log.clear()
    command = [sys.executable, "-c", OPEN, str(package), *(site.url + path for path in site.files)]
    seconds = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    sent = sum(int(b) - int(a) + 1 for a, _, b in (r.removeprefix("bytes=").partition("-") for r in site.sent_ranges))
    return sent, len(site.log), site.connections, seconds


def served(groups: dict[str, list[Path]], packages: list[Path], trip: float) -> None:
    """The table of files."""
    print(f"{'':34} {'header':>12} {'fetched':>12} {'ratio':>6} {'requests':>8} {'connections':>11} {'seconds':>8}")
    with serve(Site(trip=trip)) as site:
        for name, files in groups.items():
            size = sum(parse(LocalFile(path), strict=False).end for path in files)
            for package in packages:
                sent, requests, connections, seconds = row(site, package, files)
                mark = name if package == packages[0] else f"  {package.name}"
                numbers = f"{size:12,} {sent:12,} {sent / size:6.2f} {requests:8} {connections:11} {seconds:8.2f}"
                print(f"{mark[:34]:34} {numbers}", flush=True)


def made() -> int:
    """The table of generated headers; 1 when one costs more than it may."""
    code = 0
    for name, make in every():
        foresee._MET.clear()
        source = Counting(make())
        size = parse(source).end
        fine = source.fetched <= max(1.2 * size, foresee.FIRST_READ)
        code |= not fine
        print(
            f"{name:34} {size:12,} {source.fetched:12,} {source.fetched / size:6.2f} {source.requests:8}"
            + ("" if fine else "   too much")
        )
    return code


def digest_of(field: Field | None) -> str:
    """What `KNOWN` says of an array; "" for none, or for one that is not sound."""
    if field is None or not sound(field):
        return ""
    return digest(field.count or 0, field.value_bytes)


def vocabularies(paths: list[Path]) -> None:
    """The rows of `KNOWN`."""
    KNOWN.clear()
    digests = {}
    for path in paths:
        before = set(foresee._MET)
        header = parse(LocalFile(path), strict=False)
        for name in set(foresee._MET) - before:
            digests[name] = tuple(digest_of(header.get(key)) for key in (TOKENS, MERGES))
    for name, sizes in foresee._MET.items():
        more = (
            f", {sizes.charsmap}" if sizes.charsmap else ""
        ) + f', digests=("{digests[name][0]}", "{digests[name][1]}")'
        print(f"    0x{name:08X}: Vocabulary({sizes.count}, {sizes.tokens}, {sizes.merges}, {sizes.scores}{more}),")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--beside", type=Path, action="append", default=[])
    parser.add_argument("--trip", type=float, default=0.1, help="seconds of a round trip")
    parser.add_argument("--made", action="store_true")
    parser.add_argument("--vocabularies", action="store_true")
    given = parser.parse_args()
    if given.made:
        return made()
    if given.vocabularies:
        vocabularies(given.paths)
        return 0
    paths = given.paths or [Path(ensure(SMOLLM2)), Path(ensure(GEMMA3))]
    folders = {f"{path.name}/, {len(found)}": found for path in paths if path.is_dir() if (found := _files(path))}
    served(folders | {path.name: [path] for path in paths if path.is_file()}, [ROOT, *given.beside], given.trip)
    return 0


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in (".gguf", ".hdr"))


if __name__ == "__main__":
    sys.exit(main())
