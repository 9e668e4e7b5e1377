"""Models that are on this machine already: the cache of huggingface-hub, the store of Ollama. No network.

Both keep the data in files named by their sha256, so the name itself says what the hash must be.
"""

from __future__ import annotations

import os
import re

from gguftool.errors import FormatError, GgufToolError, MissingFile
from gguftool.hub.address import HubAddress, OllamaName
from gguftool.hub.stores.huggingface import COMMIT
from gguftool.hub.stores.ollama import MODEL_LAYER
from gguftool.hub.stores.places import hub_cache, me, ollama_roots
from gguftool.reading import json_file
from gguftool.regex import regex

_DIGEST = regex(r"sha256[:-][0-9a-f]{1,64}")


def snapshot(address: HubAddress) -> str | None:
    """Folder of the cached snapshot of a repository; None when that revision is not in the cache."""
    root = os.path.join(hub_cache(), "models--" + address.repo.replace("/", "--"))
    commit = address.revision
    if not COMMIT.fullmatch(commit):
        try:
            with open(os.path.join(root, "refs", *commit.split("/")), encoding="ascii", errors="replace") as f:
                commit = f.read(64).strip()
        except OSError:
            return None
        if not COMMIT.fullmatch(commit):
            return None
    folder = os.path.join(root, "snapshots", commit)
    return folder if os.path.isdir(folder) else None


def cached(address: HubAddress) -> str | None:
    """Path of a file of the Hub in the cache; None when it is not there."""
    folder = snapshot(address)
    if folder is None:
        return None
    path = address.path
    if not path:
        found = pick(in_cache(address), address.quant)
        if len(found) != 1:
            return None
        path = found[0]
    full = os.path.join(folder, path)
    return full if os.path.isfile(full) else None


def in_cache(address: HubAddress) -> list[str]:
    """Paths inside a repository of its files in the cache."""
    folder = snapshot(address)
    if folder is None:
        return []
    return [os.path.relpath(os.path.join(place, name), folder) for place, _, names in os.walk(folder) for name in names]


def pick(names: list[str], quant: str) -> list[str]:
    """Of the files of a repository the models with that quantisation label; of a shard set the first that is there.

    Args:
        names: paths inside the repository.
        quant: label such as ``Q4_K_M``, any case; "" for all models.
    """
    from gguftool.model.folder import firsts
    from gguftool.model.role import sidecar_by_name

    found = [n for n in sorted(names) if n.lower().endswith(".gguf")]
    models = firsts([n for n in found if not sidecar_by_name(n)] or found)
    if not quant:
        return models
    label = re.compile(rf"(?<![a-z0-9]){re.escape(quant.lower())}(?![a-z0-9_])")
    found = [name for name in models if label.search(name.lower())]
    if len(found) > 1:
        # ``Q4_K_M`` is asked for and there are x-Q4_K_M.gguf and x-UD-Q4_K_M.gguf: the plain one is meant.
        plain = re.compile(rf"(?:^|[.-]){re.escape(quant.lower())}(?![a-z0-9_])")
        shorter = [name for name in found if not re.search(rf"ud-{re.escape(quant.lower())}", name.lower())]
        found = [name for name in shorter if plain.search(name.lower())] or found
    return found


def ollama_stores() -> list[str]:
    """Folders where Ollama's models are looked for: OLLAMA_MODELS alone when set, else the user's and the service's."""
    user = me()
    return list(ollama_roots(user))[: 1 if user.said("OLLAMA_MODELS") else None]


def ollama_blob(name: OllamaName) -> str:
    """Path of the GGUF blob of a model in the local store.

    Raises:
        MissingFile: no store, no such model, or its blob is gone.
        FormatError: the manifest is not readable or names no model.
    """
    spec = f"ollama://{name.short}"
    stores = [store for store in ollama_stores() if os.path.isdir(store)]
    if not stores:
        raise MissingFile(f"{spec}: no Ollama store on this machine", "set OLLAMA_MODELS to its models folder")
    for store in stores:
        manifest = os.path.join(store, "manifests", name.host, name.namespace, name.model, name.tag)
        if os.path.isfile(manifest):
            return _blob(store, manifest, spec)
    known = ollama_names()
    listed = f"; there are {', '.join(known[:8])}" if known else ""
    raise MissingFile(f"{spec}: not in {' or '.join(stores)}{listed}", f"ollama pull {name.short}")


def _blob(store: str, manifest: str, spec: str) -> str:
    try:
        layers = json_file(manifest)["layers"]
        digest = next(str(layer["digest"]) for layer in layers if layer["mediaType"] == MODEL_LAYER)
    except (GgufToolError, KeyError, TypeError, StopIteration):
        raise FormatError(f"{manifest}: not a manifest that names a model") from None
    if not _DIGEST.fullmatch(digest):
        # It becomes the name of a file: anything else could lead out of the store.
        raise FormatError(f"{manifest}: not a manifest that names a model: its digest is {digest[:80]!r}")
    for name in (digest.replace(":", "-"), digest):
        blob = os.path.join(store, "blobs", name)
        if os.path.isfile(blob):
            return blob
    raise MissingFile(f"{spec}: its data is gone: no {digest} in {store}", "ollama pull it again")


def ollama_names() -> list[str]:
    """The models in the local stores, as ``ollama list`` shows them."""
    found: set[str] = set()
    for store in ollama_stores():
        root = os.path.join(store, "manifests")
        for place, _, names in os.walk(root):
            parts = os.path.relpath(place, root).split(os.sep)
            if len(parts) == 3:
                found.update(OllamaName(parts[0], parts[1], parts[2], tag).short for tag in names)
    return sorted(found)
