"""The forms in which one model can be named: each makes it and says its name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.beside import projector
from tests.build import GGUF, llama
from tests.hub.server import Site
from tests.verify.sets import pieces, write


@dataclass(frozen=True, slots=True)
class Named:
    """A model as it can be named; ``near``: its data is on this machine."""

    spec: str
    near: bool = True


def one() -> GGUF:
    return llama(layers=2).kv("general.description", "the one").kv("llama.kv_cache_type", "f16")


def vision(width: int = 64) -> GGUF:
    return projector("mlp", width)


def whole(folder: Path, name: str = "m-F32.gguf") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return one().write(folder / name)


def shards(folder: Path, prefix: str = "m-F32") -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    return write(pieces(one(), [9]), folder, prefix)


def path(tmp: Path, site: Site) -> Named:
    return Named(str(whole(tmp / "a")))


def folder(tmp: Path, site: Site) -> Named:
    return Named(str(whole(tmp / "a").parent))


def folder_with_a_projector(tmp: Path, site: Site) -> Named:
    vision().write(whole(tmp / "a", "llava-v1.gguf").parent / "llava-v1-mmproj-f16.gguf")
    return Named(str(tmp / "a") + "/")


def folder_with_a_projector_of_any_name(tmp: Path, site: Site) -> Named:
    vision().write(whole(tmp / "a").parent / "eyes.gguf")
    return Named(str(tmp / "a"))


def first_shard(tmp: Path, site: Site) -> Named:
    return Named(str(shards(tmp / "a")[0]))


def other_shard(tmp: Path, site: Site) -> Named:
    return Named(str(shards(tmp / "a")[1]))


def folder_of_shards(tmp: Path, site: Site) -> Named:
    vision().write(shards(tmp / "a")[0].parent / "mmproj.gguf")
    return Named(str(tmp / "a"))


def link(tmp: Path, site: Site) -> Named:
    name = tmp / "link.gguf"
    name.symlink_to(whole(tmp / "a"))
    return Named(str(name))


def link_to_a_folder(tmp: Path, site: Site) -> Named:
    name = tmp / "linked"
    name.symlink_to(whole(tmp / "a").parent)
    return Named(str(name))


def hugging_face_cache(tmp: Path, files: dict[str, bytes]) -> Path:
    """A repository ``o/r`` in the cache; returns the folder of its snapshot."""
    repo, commit = tmp / "hf-home" / "hub" / "models--o--r", "c" * 40
    for part in ("blobs", "refs", f"snapshots/{commit}"):
        (repo / part).mkdir(parents=True)
    (repo / "refs" / "main").write_text(commit)
    for name, data in files.items():
        blob = repo / "blobs" / hashlib.sha256(data).hexdigest()
        blob.write_bytes(data)
        (repo / "snapshots" / commit / name).symlink_to(f"../../blobs/{blob.name}")
    return repo / "snapshots" / commit


def cached_file(tmp: Path, site: Site) -> Named:
    hugging_face_cache(tmp, {"m-F32.gguf": one().bytes()})
    return Named("hf://o/r/m-F32.gguf")


def cached_quant(tmp: Path, site: Site) -> Named:
    hugging_face_cache(tmp, {"m-F32.gguf": one().bytes(), "m-mmproj-F32.gguf": vision().bytes()})
    return Named("hf://o/r:F32")


def cached_repository(tmp: Path, site: Site) -> Named:
    hugging_face_cache(tmp, {"m-F32.gguf": one().bytes(), "m-mmproj-f16.gguf": vision().bytes()})
    return Named("HF://o/r")


def cached_page(tmp: Path, site: Site) -> Named:
    hugging_face_cache(tmp, {"m-F32.gguf": one().bytes()})
    return Named("https://huggingface.co/o/r/blob/main/m-F32.gguf")


def cached_shard(tmp: Path, site: Site) -> Named:
    found = {p.name: p.read_bytes() for p in shards(tmp / "s")}
    hugging_face_cache(tmp, found)
    return Named(f"hf://o/r/{sorted(found)[1]}")


def snapshot_link(tmp: Path, site: Site) -> Named:
    return Named(str(hugging_face_cache(tmp, {"m-F32.gguf": one().bytes()}) / "m-F32.gguf"))


def snapshot_folder(tmp: Path, site: Site) -> Named:
    return Named(str(hugging_face_cache(tmp, {"m-F32.gguf": one().bytes()})))


def blob(tmp: Path, site: Site) -> Named:
    data = one().bytes()
    hugging_face_cache(tmp, {"m-F32.gguf": data})
    return Named(str(tmp / "hf-home/hub/models--o--r/blobs" / hashlib.sha256(data).hexdigest()))


def blob_of_a_shard(tmp: Path, site: Site) -> Named:
    found = {p.name: p.read_bytes() for p in shards(tmp / "s")}
    hugging_face_cache(tmp, found)
    return Named(str(tmp / "hf-home/hub/models--o--r/blobs" / hashlib.sha256(found[sorted(found)[1]]).hexdigest()))


def ollama_store(tmp: Path, digest: str | None = None) -> str:
    data = one().bytes()
    digest = digest or f"sha256:{hashlib.sha256(data).hexdigest()}"
    manifest = tmp / "ollama/manifests/registry.ollama.ai/library/tiny/latest"
    manifest.parent.mkdir(parents=True)
    layers = [{"mediaType": "application/vnd.ollama.image.model", "digest": digest, "size": len(data)}]
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    (tmp / "ollama/blobs").mkdir()
    (tmp / "ollama/blobs" / digest.replace(":", "-").replace("/", "_")).write_bytes(data)
    return "ollama://tiny"


def ollama(tmp: Path, site: Site) -> Named:
    return Named(ollama_store(tmp))


def ollama_spelled_out(tmp: Path, site: Site) -> Named:
    return Named(ollama_store(tmp).replace("tiny", "registry.ollama.ai/library/tiny:latest"))


def hub_file(tmp: Path, site: Site) -> Named:
    site.repos["o/r"] = {"m-F32.gguf": one().bytes(), "mmproj-f16.gguf": vision().bytes()}
    return Named("hf://o/r/m-F32.gguf", near=False)


def hub_quant(tmp: Path, site: Site) -> Named:
    return Named(hub_file(tmp, site).spec.replace("/m-F32.gguf", ":F32"), near=False)


def hub_repository(tmp: Path, site: Site) -> Named:
    site.repos["o/r"] = {"m-F32.gguf": one().bytes(), "m-mmproj-f16.gguf": vision().bytes()}
    return Named("hf://o/r", near=False)


def hub_shard(tmp: Path, site: Site) -> Named:
    site.repos["o/r"] = {p.name: p.read_bytes() for p in shards(tmp / "s")}
    return Named("hf://o/r/m-F32-00002-of-00002.gguf", near=False)


def web(tmp: Path, site: Site) -> Named:
    site.files["/d/m-F32.gguf"] = one().bytes()
    return Named(f"{site.url}/d/m-F32.gguf?x=1", near=False)


def web_with_a_blank(tmp: Path, site: Site) -> Named:
    site.files["/größe m.gguf"] = one().bytes()
    return Named(f"{site.url}/größe%20m.gguf", near=False)


FORMS: list[Callable[[Path, Site], Named]] = [
    path, folder, folder_with_a_projector, folder_with_a_projector_of_any_name, first_shard, other_shard,
    folder_of_shards, link, link_to_a_folder, cached_file, cached_quant, cached_repository, cached_page, cached_shard,
    snapshot_link, snapshot_folder, blob, blob_of_a_shard, ollama, ollama_spelled_out, hub_file, hub_quant,
    hub_repository, hub_shard, web, web_with_a_blank,
]  # fmt: skip
