"""Rows of a scan as one page: nothing is fetched, everything out of a file is inert text, columns can be sorted."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape

from gguftool.facts import llama_cpp
from gguftool.report.scan.markdown import MANY, total
from gguftool.report.scan.shown import (
    HEADERS,
    NUMBERS,
    Counts,
    Format,
    Row,
    Shown,
    cells,
    lint,
    load,
    reason,
    several,
    short,
)
from gguftool.report.text import safe

_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:1.5rem;color:#1a1a1a;background:#fff}
h1{font-size:1.2rem}table{border-collapse:collapse;margin:1rem 0}
th,td{padding:.2rem .6rem;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}
th{cursor:pointer;position:sticky;top:0;background:#f3f3f3}td.n{text-align:right;font-variant-numeric:tabular-nums}
tr.bad td:first-child{border-left:4px solid #c22}tr.warn td:first-child{border-left:4px solid #d90}
summary{cursor:pointer}li.error{color:#a11}ul{margin:.2rem 0;padding-left:1.1rem}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}th{background:#262626}th,td{border-color:#333}
li.error{color:#f77}}
"""
_SCRIPT = """
document.querySelectorAll("#rows th").forEach((th,i)=>th.addEventListener("click",()=>{
const body=document.querySelector("#rows tbody"),up=th.dataset.up!=="1";th.dataset.up=up?"1":"0";
const key=r=>{const c=r.cells[i],v=c.dataset.v;return v===undefined?c.textContent:Number(v)};
const cmp=(a,b)=>typeof a==="number"&&typeof b==="number"?a-b:String(a).localeCompare(String(b));
[...body.rows].sort((a,b)=>(up?1:-1)*cmp(key(a),key(b))).forEach(r=>body.append(r))}));
"""
SHOWN = 20
"""Findings of one model that are listed."""


def begin(shown: Shown) -> str:
    """The head of the page and of the table."""
    script = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'"
    where = ", ".join(shown.paths[:3]) + (" …" if len(shown.paths) > 3 else "")
    titles = "".join(f"<th>{title}</th>" for title in HEADERS)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>gguftool scan</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>gguftool scan: {_text(where)}</h1>\n"
        f'<table id="rows"><thead><tr>{titles}</tr></thead>\n<tbody>\n'
    )


def row(row: Row, shown: Shown) -> str:
    """A line of the table; what was found opens below its count."""
    facts, counts = row["facts"] or {}, row["lint"] or {}
    numbers = {
        "params": facts.get("parameters"),
        "bpw": facts.get("bits_per_weight"),
        "context": facts.get("context_length"),
        "size": facts.get("size"),
    }
    why = reason(row)
    texts = dict(zip(HEADERS[1:8], cells(row), strict=True))
    out = [f"<td>{_text(short(row, shown.folder))}</td>"]
    for title, text in texts.items():
        value = f' data-v="{numbers[title]}"' if numbers.get(title) is not None else ""
        out.append(f'<td class="n"{value}>{_text(text)}</td>' if title in NUMBERS else f"<td>{_text(text)}</td>")
    out.append(f"<td>{'yes' if row['ok'] else 'no'}{': ' + _text(why) if why else ''}</td>")
    said = f": {_text(row['said'])}" if row["said"] else ""
    out.append(f"<td>{_text(load(row))}{said}</td>")
    weight = 1_000_000 * counts.get("error", 0) + counts.get("warning", 0)
    out.append(f'<td data-v="{weight}">{_findings(row)}</td>')
    kind = "bad" if not row["ok"] or counts.get("error") else "warn" if counts.get("warning") else ""
    return f'<tr class="{kind}">{"".join(out)}</tr>\n'


def _findings(row: Row) -> str:
    said = _text(lint(row))
    found = row["findings"]
    if not found:
        return said
    items = "".join(
        f'<li class="{_text(f["severity"])}">{_text(f["message"])} <small>{_text(f["rule"])}</small></li>'
        for f in found[:SHOWN]
    )
    more = f"<li>… and {len(found) - SHOWN:,} more</li>" if len(found) > SHOWN else ""
    return f"<details><summary>{said}</summary><ul>{items}{more}</ul></details>"


def end(shown: Shown) -> str:
    """The summary, and what sorts the table."""
    counts = shown.counts
    said = f"<p>{_text(total(counts))}"
    if counts.build is not None:
        said += f"; {_text(llama_cpp(counts.build))} does not load {counts.refused:,} of them"
    tables = [_counted("architecture", counts.architectures.most_common(MANY))]
    tables.append(_counted("quantisation", counts.quantisations.most_common(MANY)))
    if counts.worst:
        tables.append(_worst(counts))
    return f"</tbody></table>\n{said}</p>\n{''.join(tables)}<script>{_SCRIPT}</script></body></html>\n"


def _counted(title: str, names: Iterable[tuple[str, int]]) -> str:
    lines = "".join(f'<tr><td>{_text(name)}</td><td class="n">{n:,}</td></tr>' for name, n in names)
    return f"<table><tr><th>{title}</th><th>models</th></tr>{lines}</table>\n"


def _worst(counts: Counts) -> str:
    lines = "".join(
        f"<tr><td>{_text(path)}</td><td>{'no' if broken else 'yes'}</td>"
        f"<td>{_text(several({'error': errors, 'warning': warnings}))}</td></tr>"
        for broken, errors, warnings, path in counts.worst
    )
    return f"<table><tr><th>worst</th><th>whole</th><th>findings</th></tr>{lines}</table>\n"


def _text(text: object) -> str:
    return escape(safe(str(text)))


HTML = Format(begin, row, end, data=True)
