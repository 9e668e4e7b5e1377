"""What a bill of materials says of one model: its files and their hashes, its licence, what it was made of."""

from __future__ import annotations

from typing import Any

from gguftool.errors import GgufToolError
from gguftool.fleet.row import LONGEST
from gguftool.hub import is_remote
from gguftool.model import Model
from gguftool.model.credits import Credits, Relative, credits_of, text_sha256
from gguftool.model.embedder import no_chat
from gguftool.model.filename import holds
from gguftool.records import asdict
from gguftool.verify.hashes import FILE, hash_file

TEMPLATE = "tokenizer.chat_template"
MOST = 20
"""Licences of an expression that are told each."""
_TEXTS = ("name", "version", "description", "author", "organization", "quantized_by", "url", "repo_url")


def bill(m: Model, hashes: bool) -> dict[str, Any]:
    """The bill of one open model, as plain and bounded JSON.

    Args:
        m: the model.
        hashes: with the SHA-256 of every file: files of this machine are read whole, of files on the Hub its record is
            taken.

    Returns:
        ``files`` (path, size, sha256 or None), texts of `general.*` (absent ones are ""), ``licence`` (None when none
        is named), ``bases``, ``source``, ``datasets``, ``tags``, ``languages``, ``template_sha256``, ``quantisation``.
    """
    c = credits_of(m)
    own, most, _ = holds(m)
    imatrix = m.fields.get("quantize.imatrix.file")
    return {
        "files": [{"path": p.name, "size": p.size, "sha256": sha256_of(p.name) if hashes else None} for p in m.parts],
        **{name: getattr(c, name)[:LONGEST] for name in _TEXTS},
        "repository": c.repository,
        "licence": _licence(c),
        "bases": [_relative(one) for one in c.bases],
        "source": _relative(c.source) if c.source is not None else None,
        "datasets": [_relative(one) for one in c.datasets],
        "tags": [tag[:LONGEST] for tag in c.tags],
        "languages": [name[:LONGEST] for name in c.languages],
        "template_sha256": text_sha256(m.fields.get(TEMPLATE)),
        "quantisation": {"label": own or most, "most": most, "imatrix": imatrix is not None},
        "task": "feature-extraction" if no_chat(m) else "text-generation",
    }


def sha256_of(name: str) -> str | None:
    """Of one file; None where it cannot be had.

    Raises:
        MissingFile, Unreadable, ChangedMeanwhile: a file of this machine cannot be read whole.
    """
    if not is_remote(name):
        return hash_file(name, FILE).file
    from gguftool.hub.api import hub_records

    try:
        return next((record.sha256 for record in hub_records(name, [name]).values()), None)
    except GgufToolError:
        return None


def _licence(c: Credits) -> dict[str, Any] | None:
    found = c.licence
    if found is None:
        return None
    return {
        "said": found.said[:LONGEST],
        "expression": found.expression[:LONGEST],
        "use": found.use,
        "link": c.license_link[:LONGEST],
        "parts": [
            {"id": p.id[:LONGEST], "name": p.name[:LONGEST], "listed": p.listed, "link": p.link}
            for p in found.parts[:MOST]
        ],
    }


def _relative(one: Relative) -> dict[str, str]:
    return {key: value[:LONGEST] for key, value in asdict(one).items()}
