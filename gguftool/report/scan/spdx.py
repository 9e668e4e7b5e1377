"""A bill of materials of SPDX 2.3: a package for each model, each file of a set, each model that one was made of.

2.3 is what consumers and validators read in 2026. Files are packages here: SPDX asks for SHA-1 of what it calls a file.
What the rules find is an annotation of the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gguftool.report.envelope import dumps
from gguftool.report.scan.bills import (
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

VERSION = "SPDX-2.3"
TOOL = f"Tool: gguftool-{__version__}"
NONE = "NOASSERTION"
LIST = "3.28"
"""Version of the list of licences that identifiers are taken from (`facts/data/licences.json`)."""


def _begin(shown: Shown) -> str:
    s = state(shown)
    head = {
        "spdxVersion": VERSION,
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"Models found by gguftool: {shown.counts.models}",
        "documentNamespace": f"https://spdx.org/spdxdocs/gguftool-{s.serial}",
        "creationInfo": {"created": s.at, "creators": [TOOL], "licenseListVersion": LIST},
    }
    return dumps(head, compact=True)[:-1] + ',"packages":['


def _row(row: Row, shown: Shown) -> str:
    s = state(shown)
    one = package(row, shown)
    own, path = one["SPDXID"], place(row, shown)
    _relate(shown, path, "SPDXRef-DOCUMENT", "DESCRIBES", own)
    texts = ["\n" + dumps(one, compact=True)]
    files = (row["bill"] or {}).get("files", [])
    for file in files if len(files) > 1 else []:
        texts.append("\n" + dumps(shard(file, shown), compact=True))
        _relate(shown, path, own, "DISTRIBUTION_ARTIFACT", shard(file, shown)["SPDXID"])
    for base in ancestors(row):
        made = base_package(base)
        s.known.setdefault(made["SPDXID"], dumps(made, compact=True))
        _relate(shown, path, own, "DESCENDANT_OF", made["SPDXID"])
    for part in ((row["bill"] or {}).get("licence") or {}).get("parts", ()):
        if not part["listed"]:
            s.known.setdefault(part["id"], dumps(extracted(part, row), compact=True))
    return s.row(",".join(texts))


def _relate(shown: Shown, order: str, one: str, kind: str, other: str) -> None:
    row = {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
    state(shown).add("relationships", f"{order}\0{kind}\0{other}", row)


def _end(shown: Shown) -> str:
    s = state(shown)
    if not shown.counts.models:
        _relate(shown, "", "SPDXRef-DOCUMENT", "DESCRIBES", "NONE")
    bases = [text for name, text in sorted(s.known.items()) if name.startswith("SPDXRef-")]
    refs = [text for name, text in sorted(s.known.items()) if name.startswith("LicenseRef-")]
    more = "".join(f",\n{text}" for text in bases) if shown.counts.models else ""
    found = f',"hasExtractedLicensingInfos":[{",".join(refs)}]' if refs else ""
    return f'{more}],"relationships":{s.listed("relationships")}{found}}}\n'


def package(row: Row, shown: Shown) -> dict[str, Any]:
    """One model."""
    bill = row["bill"] or {}
    files, said = bill.get("files", []), bill.get("licence")
    out: dict[str, Any] = {
        "name": called(row),
        "SPDXID": f"SPDXRef-Model-{ref(place(row, shown))}",
        "versionInfo": bill.get("version"),
        "downloadLocation": url(bill.get("repo_url", "")) or NONE,
        "homepage": url(bill.get("url", "")),
        "filesAnalyzed": False,
        "checksums": checksums(files[0]) if len(files) == 1 else None,
        "licenseConcluded": NONE,
        "licenseDeclared": said["expression"] if said else NONE,
        "copyrightText": NONE,
        "supplier": _who(bill.get("quantized_by", "")),
        "originator": _who(bill.get("organization", "") or bill.get("author", "")),
        "description": bill.get("description"),
        "externalRefs": references(bill.get("repository", "")),
        "primaryPackagePurpose": "FILE",
        "comment": "; ".join(f"{name}={_plain(value)}" for name, value in facts(row, shown)),
        "annotations": [
            {
                "annotationDate": state(shown).at,
                "annotationType": "REVIEW",
                "annotator": TOOL,
                "comment": f"{f['severity']}: {f['rule']}: {f['message']}" + (f" ({f['where']})" if f["where"] else ""),
            }
            for f in findings(row)
        ],
    }
    return {key: value for key, value in out.items() if value or value is False}


def _who(name: str) -> str:
    """An organisation as SPDX writes it; brackets would be an address of mail."""
    plain = _plain(name).replace("(", "[").replace(")", "]").strip()
    return f"Organization: {plain}" if plain else NONE


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def checksums(file: Mapping[str, Any]) -> list[dict[str, str]] | None:
    """The hashes of one file."""
    return [{"algorithm": "SHA256", "checksumValue": file["sha256"]}] if file["sha256"] else None


def shard(file: Mapping[str, Any], shown: Shown) -> dict[str, Any]:
    """One file of a set."""
    name = str(file["path"]).removeprefix(shown.folder)
    out = {
        "name": name,
        "SPDXID": f"SPDXRef-File-{ref(name)}",
        "downloadLocation": NONE,
        "filesAnalyzed": False,
        "checksums": checksums(file),
        "licenseConcluded": NONE,
        "licenseDeclared": NONE,
        "copyrightText": NONE,
        "primaryPackagePurpose": "FILE",
    }
    return {key: value for key, value in out.items() if value or value is False}


def base_package(one: Mapping[str, str]) -> dict[str, Any]:
    """A model that another was made of."""
    name = shown_name(one)
    out: dict[str, Any] = {
        "name": name,
        "SPDXID": f"SPDXRef-Base-{ref(name)}",
        "versionInfo": one["version"],
        "downloadLocation": url(one["url"]) or NONE,
        "filesAnalyzed": False,
        "licenseConcluded": NONE,
        "licenseDeclared": NONE,
        "copyrightText": NONE,
        "supplier": _who(one["organization"]),
        "externalRefs": references(one["repository"]),
    }
    return {key: value for key, value in out.items() if value or value is False}


def references(repository: str) -> list[dict[str, str]] | None:
    """The package URL of a repository on the Hub."""
    at = purl(repository)
    row = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": at}
    return [row] if at else None


def extracted(part: Mapping[str, Any], row: Row) -> dict[str, Any]:
    """A licence that is not on SPDX's list."""
    said = (row["bill"] or {}).get("licence") or {}
    links = [x for x in dict.fromkeys((said.get("link", ""), part["link"])) if x and url(x)]
    see = f"; its text: {links[0]}" if links else ", which names it and does not hold its text"
    out = {
        "licenseId": part["id"],
        "name": part["name"],
        "extractedText": f"{part['name']}, as the model's file has it{see}",
        "seeAlsos": links,
    }
    return {key: value for key, value in out.items() if value}


SPDX = Format(_begin, _row, _end, sorted=True, between=",", data=True, bill=True)
