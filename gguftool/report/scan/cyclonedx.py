"""A bill of materials of CycloneDX 1.6 (ECMA-424): a component for each model.

1.6 is what consumers read in 2026; `modelCard` came with 1.5. What the rules find is an annotation of the model; what
was put into a file to do harm is a vulnerability as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gguftool.report.envelope import dumps
from gguftool.report.scan.bills import (
    DATA,
    State,
    about_security,
    ancestors,
    called,
    facts,
    findings,
    place,
    purl,
    ref,
    shown_name,
    state,
    url,
)
from gguftool.report.scan.shown import Format, Row, Shown
from gguftool.version import __version__

VERSION = "1.6"
TOOL = {"type": "application", "name": "gguftool", "version": __version__}
_RATING = {"error": "high", "warning": "medium", "info": "low"}


def _begin(shown: Shown) -> str:
    head = {
        "$schema": f"http://cyclonedx.org/schema/bom-{VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": VERSION,
        "serialNumber": f"urn:uuid:{state(shown).serial}",
        "version": 1,
        "metadata": {"timestamp": state(shown).at, "tools": {"components": [TOOL]}},
    }
    return dumps(head, compact=True)[:-1] + ',"components":['


def _row(row: Row, shown: Shown) -> str:
    one, s = component(row, shown), state(shown)
    for i, f in enumerate(findings(row)):
        at, where = f"{place(row, shown)}\0{i:03}", f" ({f['where']})" if f["where"] else ""
        s.noted.setdefault(f"{f['severity']}: {f['rule']}: {f['message']}{where}", []).append(one["bom-ref"])
        if f["rule"] in about_security():
            s.add("vulnerabilities", at, vulnerability(f, one["bom-ref"]))
    return s.row("\n" + dumps(one, compact=True))


def _end(shown: Shown) -> str:
    s = state(shown)
    notes = ",".join(dumps(note(text, s), compact=True) for text in sorted(s.noted))
    rest = f',"annotations":[{notes}]' if notes else ""
    rest += f',"vulnerabilities":{s.listed("vulnerabilities")}' if "vulnerabilities" in s.said else ""
    return f"]{rest}}}\n"


def note(text: str, s: State) -> dict[str, Any]:
    """What the rules say of one model or of many."""
    subjects = sorted(set(s.noted[text]))
    return {"subjects": subjects, "annotator": {"component": TOOL}, "timestamp": s.at, "text": text}


def component(row: Row, shown: Shown) -> dict[str, Any]:
    """One model; what cannot be read is a file with the reason."""
    bill, f = row["bill"] or {}, row["facts"]
    is_model = f is not None and f["role"] not in DATA
    files = bill.get("files", [])
    out: dict[str, Any] = {
        "type": "machine-learning-model" if is_model else "data" if f is not None else "file",
        "bom-ref": f"model-{ref(place(row, shown))}",
        "name": called(row),
        "version": bill.get("version"),
        "description": bill.get("description"),
        "authors": [{"name": bill["author"]}] if bill.get("author") else None,
        "supplier": {"name": bill["organization"]} if bill.get("organization") else None,
        "manufacturer": {"name": bill["quantized_by"]} if bill.get("quantized_by") else None,
        "hashes": hashes(files[0]) if len(files) == 1 else None,
        "licenses": licences(bill.get("licence")),
        "purl": purl(bill.get("repository", "")),
        "pedigree": {"ancestors": [ancestor(one) for one in ancestors(row)]},
        "externalReferences": references(bill),
        "components": [shard(x, shown) for x in files] if len(files) > 1 else None,
        "modelCard": card(row) if is_model else None,
        "properties": [{"name": f"gguf:{name}", "value": value} for name, value in facts(row, shown)],
        "tags": list(dict.fromkeys(bill.get("tags", ()))),
    }
    if not out["pedigree"]["ancestors"]:
        out["pedigree"] = None
    return {key: value for key, value in out.items() if value}


def hashes(file: Mapping[str, Any]) -> list[dict[str, str]] | None:
    """The hashes of one file."""
    return [{"alg": "SHA-256", "content": file["sha256"]}] if file["sha256"] else None


def shard(file: Mapping[str, Any], shown: Shown) -> dict[str, Any]:
    """One file of a set."""
    name = str(file["path"]).removeprefix(shown.folder)
    out = {
        "type": "file",
        "bom-ref": f"file-{ref(name)}",
        "name": name,
        "hashes": hashes(file),
        "properties": [{"name": "gguf:size", "value": str(file["size"])}],
    }
    return {key: value for key, value in out.items() if value}


def licences(said: Mapping[str, Any] | None) -> list[dict[str, Any]] | None:
    """The licence as the schema has it: one identifier, one name, or one expression."""
    if said is None:
        return None
    parts = said["parts"]
    if len(parts) != 1:
        return [{"expression": said["expression"], "acknowledgement": "declared"}]
    one, link = parts[0], url(said["link"]) or url(parts[0]["link"])
    named = {"id": one["id"]} if one["listed"] else {"name": one["name"]}
    return [{"license": {**named, "acknowledgement": "declared", **({"url": link} if link else {})}}]


def ancestor(one: Mapping[str, str]) -> dict[str, Any]:
    """A model that it was made of."""
    out: dict[str, Any] = {
        "type": "machine-learning-model",
        "name": one["name"] or shown_name(one),
        "version": one["version"],
        "supplier": {"name": one["organization"]} if one["organization"] else None,
        "purl": purl(one["repository"]),
        "externalReferences": [{"type": "website", "url": url(one["url"])}] if url(one["url"]) else None,
    }
    return {key: value for key, value in out.items() if value}


def references(bill: Mapping[str, Any]) -> list[dict[str, str]] | None:
    """Where it is published, and where its licence stands."""
    said = bill.get("licence") or {}
    rows = (
        ("distribution", bill.get("repo_url", "")),
        ("website", bill.get("url", "")),
        ("license", said.get("link", "")),
    )
    return [{"type": kind, "url": text} for kind, text in rows if text and url(text)] or None


def card(row: Row) -> dict[str, Any]:
    """Architecture, task and data sets."""
    f, bill = row["facts"] or {}, row["bill"] or {}
    data = [
        {"type": "dataset", "name": shown_name(one), **({"contents": {"url": one["url"]}} if url(one["url"]) else {})}
        for one in bill.get("datasets", ())
    ]
    parameters = {"task": bill.get("task"), "modelArchitecture": f.get("architecture"), "datasets": data}
    return {"modelParameters": {key: value for key, value in parameters.items() if value}}


def vulnerability(f: Mapping[str, str], subject: str) -> dict[str, Any]:
    """A finding about content that was made to do harm."""
    return {
        "bom-ref": f"finding-{subject.removeprefix('model-')}-{ref(f['rule'] + f['where'] + f['message'])}",
        "id": f["rule"],
        "source": {"name": "gguftool"},
        "ratings": [{"severity": _RATING[f["severity"]], "method": "other"}],
        "description": f["message"],
        "affects": [{"ref": subject}],
    }


CYCLONEDX = Format(_begin, _row, _end, sorted=True, between=",", data=True, bill=True)
