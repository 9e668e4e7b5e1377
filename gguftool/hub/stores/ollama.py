"""Ollama's store: data in ``blobs`` named by its sha256, and a manifest for each tag that names its layers.

``manifests/HOST/NAMESPACE/MODEL/TAG``; what has another depth or a name that Ollama does not take is none
(`manifest/manifest.go:Manifests`). A manifest that cannot be read keeps Ollama from removing anything, and us from
calling a blob unused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from gguftool.hub.address import OllamaName
from gguftool.hub.stores.kept import Contents, Kept, Name, Walk
from gguftool.model.shards import is_gguf
from gguftool.reading import Malformed, from_json
from gguftool.records import dataclass, field
from gguftool.regex import regex

LARGEST = 4 << 20
"""Bytes of a manifest that is read."""
MODEL_LAYER = "application/vnd.ollama.image.model"
LAYERS = {
    MODEL_LAYER: "",
    "application/vnd.ollama.image.projector": "projector",
    "application/vnd.ollama.image.adapter": "adapter",
    "application/vnd.ollama.image.draft": "draft",
    "application/vnd.ollama.image.embed": "embed",
}
"""Kinds of layers that are GGUF files, and what of the model each is."""
DIGEST = regex(r"sha256[:-]([0-9a-fA-F]{64})")
_BLOB = regex(r"sha256-([0-9a-fA-F]{64})")
_PARTIAL = regex(r"(sha256-[0-9a-fA-F]{64})-partial(-\d+)?")
_PART = regex(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,349}")
"""A part of a name (`types/model/name.go:isValidPart`)."""


@dataclass(slots=True)
class _Index:
    """Who names which blob: digest in hex -> names."""

    gguf: dict[str, list[Name]] = field(default_factory=dict)
    other: set[str] = field(default_factory=set)
    clear: bool = True


def read(root: str) -> Contents:
    """The GGUF files in a store."""
    found = Contents()
    walk = Walk(found)
    index = _Index()
    for path, name in manifests(root, walk):
        _note(index, path, name, walk)
    seen: set[str] = set()
    blobs = walk.entries(os.path.join(root, "blobs"))
    there = [b.path for b in blobs]
    for blob in blobs:
        if exact := _BLOB.fullmatch(blob.name):
            digest = exact[1].lower()
            file = walk.file(blob.path)
            if file is None:
                continue
            seen.add(digest)
            names = tuple(index.gguf.get(digest, ()))
            if names:
                found.kept.append(Kept("model", file.path, names, file, digest, group=names[0].text))
            elif digest not in index.other and is_gguf(file.path):
                found.kept.append(Kept("orphan", file.path, (), file, digest, stuck=not index.clear))
        elif not _PARTIAL.fullmatch(blob.name) or blob.name.endswith("-partial"):
            found.kept += _unfinished(blob.path, there, walk)
    for digest, lost in index.gguf.items():
        if digest not in seen:
            gone = os.path.join(root, "blobs", f"sha256-{digest}")
            found.kept.append(Kept("lost", gone, tuple(lost), group=lost[0].text))
    return found


def name_of(path: str) -> str:
    """What the store that a blob lies in calls it: ``llama3.2:3b``; "" for no blob, or one without a name."""
    blobs, base = os.path.split(os.path.realpath(path))
    exact = _BLOB.fullmatch(base)
    if exact is None or os.path.basename(blobs) != "blobs":
        return ""
    walk, index = Walk(Contents()), _Index()
    for manifest, name in manifests(os.path.dirname(blobs), walk):
        _note(index, manifest, name, walk)
    return next((name.text for name in index.gguf.get(exact[1].lower(), ())), "")


def manifests(root: str, walk: Walk) -> Iterator[tuple[str, OllamaName | None]]:
    """Path and name of every manifest; None for a name that Ollama does not take."""
    top = os.path.join(root, "manifests")
    for host in walk.entries(top):
        for namespace in walk.entries(host.path):
            for model in walk.entries(namespace.path):
                for tag in walk.entries(model.path):
                    if tag.is_dir():
                        continue
                    parts = (host.name, namespace.name, model.name, tag.name)
                    yield tag.path, OllamaName(*parts) if all(map(_PART.fullmatch, parts)) else None


def _note(index: _Index, path: str, name: OllamaName | None, walk: Walk) -> None:
    data = walk.small(path, LARGEST)
    layers = _layers(data) if data is not None else None
    if layers is None or name is None:
        index.clear = False
        if data is not None:
            why = "not a manifest of Ollama" if layers is None else "a name that Ollama does not take"
            walk.found.unread.append((path, why))
    for kind, digest in layers or ():
        if kind in LAYERS and name is not None:
            index.gguf.setdefault(digest, []).append(Name(name.short, path, LAYERS[kind]))
        else:
            index.other.add(digest)


def _layers(data: bytes) -> list[tuple[str, str]] | None:
    """Kind and digest in hex of each layer; None for what is no manifest."""
    try:
        found = from_json(data)
        layers = [*found["layers"], *([found["config"]] if found.get("config") else [])]
        pairs = [(str(x["mediaType"]), str(x["digest"])) for x in layers if x["digest"]]
    except (Malformed, KeyError, TypeError, AttributeError):
        return None
    # It becomes the name of a file: anything else could lead out of the store.
    exact = [(kind, DIGEST.fullmatch(digest)) for kind, digest in pairs]
    out = [(kind, m[1].lower()) for kind, m in exact if m]
    return out if len(out) == len(pairs) else None


def _unfinished(path: str, there: list[str], walk: Walk) -> Iterator[Kept]:
    """A download that was not finished, with the notes of its pieces; or what `ollama create` left behind."""
    name = os.path.basename(path)
    if not name.startswith("sha256-"):
        return
    file = walk.file(path)
    if file is None:
        return
    pulled = _PARTIAL.fullmatch(name)
    # A download is laid out with holes: its beginning need not be there.
    if not is_gguf(file.path) and not (pulled and file.size >= 1 << 20):
        return
    beside = tuple(p for p in there if pulled and re.fullmatch(re.escape(path) + r"-\d+", p))
    yield Kept("part", file.path, (Name(f"sha256:{pulled[1][7:19]}" if pulled else name, path),), file, beside=beside)
