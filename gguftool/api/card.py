"""The card of a repository, written from what the files say; nothing that is there is lost."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Sequence

from gguftool.api.sums import Planned
from gguftool.errors import GgufToolError, Refused, of_one
from gguftool.facts import NUMBER
from gguftool.facts.licences import for_card, licence
from gguftool.lint.publishing import Publishing
from gguftool.model import Model, open_model
from gguftool.model.card import BEGIN as MARK
from gguftool.model.card import END, LARGEST, NAME, parts
from gguftool.model.credits import Credits, credits_of
from gguftool.model.embedder import no_chat
from gguftool.model.filename import holds, label
from gguftool.model.overview import overview
from gguftool.model.role import ROLES, role, what_it_is
from gguftool.model.unreadable import unreadable
from gguftool.quantity import human
from gguftool.reading import file_bytes
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.run.cardlines import taken
from gguftool.run.emit.words import yaml
from gguftool.shell import path_word, shell

SHOWN = 8192
"""Context in tokens of the commands and of the memory beside them, where the model has as many."""
PLENTY = 1 << 50
"""Bytes of memory for the plan: the card must not depend on the machine it is written on."""
_DEFAULTS = (
    ("-ctk", "f16"), ("-ctv", "f16"), ("-fa", "auto"), ("-lv", "4"), ("--host", "127.0.0.1"), ("--port", "8080"),
)  # fmt: skip
"""What llama-server does by itself, or is of interest to whoever planned only."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of the card.

    Attributes:
        name: of its first file, in the repository.
        files: all of them.
        what: in words, "" for a language model.
        quantisation, bits: what the tensors are.
        size: bytes of all files.
        memory: bytes of a launch with ``context`` tokens; 0 where it is none.
        command: words that start it; empty where it is not started by itself, or would not be.
        note: why not.
    """

    name: str
    files: tuple[str, ...]
    what: str
    quantisation: str
    bits: float | None
    size: int
    memory: int = 0
    context: int = 0
    command: tuple[str, ...] = ()
    note: str = ""


def plan_card(
    p: Publishing, wanted: Sequence[str], *, overwrite: bool, wrong: Collection[str] = ()
) -> tuple[Planned | None, list[str]]:
    """README.md as it is to be: the whole of a new one; of one that is there the metadata it lacks, and our part.

    Args:
        p: the folder, hashed.
        wanted: first files of the models that it is about.
        overwrite: also over our part where somebody else changed it.
        wrong: metadata that contradicts the files and is to be put right.

    Returns:
        what is to be written, None where nothing is, and what is worth knowing.

    Raises:
        Refused: the metadata in front cannot be read, or our part was changed by hand.
    """
    path = os.path.join(p.folder, NAME)
    entries, notes, lead = list[Entry](), list[str](), ""
    for first in wanted:
        try:
            one = entry(first, p)
        except Exception as error:
            notes.append(f"{first}: left out of the card: {of_one(error, first)}")
            continue
        entries.append(one)
        notes += [f"{one.name}: {one.note}"] if one.note else []
        lead = first if first == p.lead or not lead else lead
    if not entries:
        return None, notes
    if not p.repo and any(one.command for one in entries):
        notes.append(f"{path}: its commands name files; with --repo OWNER/NAME they name the repository")
    with open_model(lead, strict=False) as m:
        front = metadata(m, p, entries)
        about = heading(m, p)
    part = section(p, entries)
    if p.card is None:
        text = f"---\n{_yaml(front)}---\n\n{about}\n{part}"
        return Planned(path, text.encode("utf-8", "surrogateescape"), None), notes
    old = file_bytes(path, LARGEST)
    new = _merged(old.decode("utf-8", "surrogateescape"), p, front, part, path, overwrite, wrong)
    data = new.encode("utf-8", "surrogateescape")
    return Planned(path, data, old) if data != old else None, notes


def _merged(
    text: str,
    p: Publishing,
    front: dict[str, str | list[str]],
    part: str,
    path: str,
    overwrite: bool,
    wrong: Collection[str],
) -> str:
    card = p.card
    if card is not None and card.fault:
        raise Refused(f"{path}: {card.fault}; nothing was written", "mend or take away the lines between ---")
    there = dict(card.front) if card is not None else {}
    also = ("license_name", "license_link") if "license" in wrong and "license" in front else ()
    for key in (*wrong, *also):
        if key in there and (key in front or key in also):
            text = _without(text, key)
            del there[key]
    lacking = {key: value for key, value in front.items() if key not in there}
    if "license" in there:
        lacking = {key: value for key, value in lacking.items() if not key.startswith("license")}
    end = "\r\n" if "\r\n" in text[:200] else "\n"
    added = _yaml(lacking).replace("\n", end)
    if there:
        # Behind the last line of the metadata, whose own lines stay as they are.
        close = re.search(r"^---[ \t]*\r?$", text[3:], re.M)
        if close is not None:
            text = text[: 3 + close.start()] + added + text[3 + close.start() :]
    else:
        text = f"---{end}{added}---{end}{end}{text.removeprefix(chr(0xFEFF))}"
    found = parts(text)
    if not found:
        return text.rstrip("\r\n") + f"{end}{end}" + part.replace("\n", end) if text.strip() else text + part
    ours = found[0]
    if (len(found) > 1 or _digest(ours.text.replace("\r\n", "\n")) != ours.digest) and not overwrite:
        raise Refused(
            f"{path}: the part between gguftool:begin and gguftool:end was changed by hand; nothing was written",
            "move what you wrote out of it, or say --overwrite",
        )
    return text[: ours.start] + part.replace("\n", end) + text[ours.end :]


def _without(text: str, key: str) -> str:
    """The card without one entry of its metadata: its line, and the lines that are indented or of its list."""
    close = re.search(r"^---[ \t]*\r?$", text[3:], re.M)
    end = 3 + close.start() if close is not None else 0
    entry = re.compile(
        rf"^(?:{re.escape(key)}|\"{re.escape(key)}\"|'{re.escape(key)}')[ \t]*:[^\n]*\n(?:[ \t-][^\n]*\n)*", re.M
    )
    return entry.sub("", text[:end], count=1) + text[end:]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def entry(first: str, p: Publishing) -> Entry:
    """One model as the card has it; the memory is planned, the command is the one that was planned."""
    from gguftool.api.plan import plan
    from gguftool.run.wishes import Wishes

    with open_model(first, strict=False) as m:
        if (fault := unreadable(m)) is not None:
            raise fault
        names = tuple(os.path.relpath(path, p.folder or ".").replace(os.sep, "/") for path in m.paths)
        own, most, _ = holds(m)
        o = overview(m)
        runs = ROLES[role(m)].runs
        what = "" if role(m) == "model" else what_it_is(m)
        base = Entry(names[0], names, what, own or most, o.bits_per_weight, m.file_size)
        if not runs:
            return base
        context = min(SHOWN, m.arch.context_length or SHOWN)
        try:
            made = plan(m, Wishes(ctx=context, vram=(), ram=PLENTY), build=NUMBER)
        except GgufToolError as error:
            return Entry(*_head(base), note=f"no command was written: {error}")
    why = made.not_loaded or next(iter(made.refused), "")
    if why:
        return Entry(*_head(base), note=f"no command was written, llama.cpp would not start it: {why}")
    return Entry(*_head(base), made.memory.total, context, command(made.command, names[0], p))


def _head(e: Entry) -> tuple[str, tuple[str, ...], str, str, float | None, int]:
    return e.name, e.files, e.what, e.quantisation, e.bits, e.size


def command(planned: Sequence[str], name: str, p: Publishing) -> tuple[str, ...]:
    """The planned command for whoever has the repository and not this machine."""
    words = list(planned)
    at = words.index("-m")
    words[at : at + 2] = address(name, p) if p.repo else ["-m", path_word(name)]
    out: list[str] = []
    while words:
        if tuple(words[:2]) in _DEFAULTS:
            del words[:2]
        else:
            out.append(words.pop(0))
    return tuple(out)


def address(name: str, p: Publishing) -> list[str]:
    """How llama-server gets a file of the repository: by the label in its name, where that leads to this file."""
    tag = label(name)
    files = [f for f in p.sizes if f.endswith(".gguf")]
    for wanted in (tag, f"UD-{tag}") if tag else ():
        if taken(files, wanted) == name:
            return ["-hf", f"{p.repo}:{wanted}"]
    if not tag and taken(files, "") == name:
        return ["-hf", p.repo]
    return ["-hf", p.repo, "-hff", name]


def metadata(m: Model, p: Publishing, entries: Sequence[Entry]) -> dict[str, str | list[str]]:
    """What the Hub reads in front of the card, from the keys of the leading model."""
    c = credits_of(m)
    out: dict[str, str | list[str]] = {}
    out |= _licence(c)
    bases = [one.repository for one in ([c.source] if c.source is not None else list(c.bases)) if one.repository]
    if bases:
        out["base_model"] = bases[0] if len(bases) == 1 else bases
        out["base_model_relation"] = "quantized"
    sees = any("projector" in one.what for one in entries)
    out["pipeline_tag"] = "feature-extraction" if no_chat(m) else "image-text-to-text" if sees else "text-generation"
    out["library_name"] = "gguf"
    if c.quantized_by:
        out["quantized_by"] = c.quantized_by
    if c.languages:
        out["language"] = list(c.languages)
    out["tags"] = [*dict.fromkeys(("gguf", "llama.cpp", *c.tags))]
    return out


def _licence(c: Credits) -> dict[str, str | list[str]]:
    said = licence(c.license)
    name = for_card(said) if said is not None else None
    if name is not None:
        return {"license": name}
    if said is None and not c.license_name:
        return {}
    if said is not None and len(said.parts) > 1 and " OR " not in said.expression:
        each = [for_card(one) for part in said.parts if (one := licence(part.said)) is not None]
        if each and all(each):
            return {"license": [str(x) for x in each]}
    out: dict[str, str | list[str]] = {"license": "other"}
    out["license_name"] = re.sub(r"[^a-z0-9.-]+", "-", (c.license_name or c.license).lower()).strip("-") or "other"
    if c.license_link:
        out["license_link"] = c.license_link
    return out


def _yaml(front: dict[str, str | list[str]]) -> str:
    lines = []
    for key, value in front.items():
        if isinstance(value, str):
            lines.append(f"{key}: {_scalar(value)}")
        else:
            lines += [f"{key}:", *(f"- {_scalar(x)}" for x in value)]
    return "".join(f"{line}\n" for line in lines)


_PLAIN_WORD = regex(r"[A-Za-z][\w./+-]*")
_NOT_TEXT = frozenset({"y", "n", "yes", "no", "true", "false", "on", "off", "null"})


def _scalar(text: str) -> str:
    return text if _PLAIN_WORD.fullmatch(text) and text.lower() not in _NOT_TEXT else yaml(text)


def heading(m: Model, p: Publishing) -> str:
    """Title and first sentence of a new card."""
    c = credits_of(m)
    name = cell(p.repo.partition("/")[2] or c.name or os.path.basename(m.name))
    origin = next(iter(c.near), None)
    of = ""
    if origin is not None:
        shown = cell(origin.shown)
        at = f"https://huggingface.co/{origin.repository}" if origin.repository else ""
        of = f" of [{shown}]({at})" if at else f" of {shown}"
    by = f", quantised by {cell(c.quantized_by)}" if c.quantized_by else ""
    return f"# {name}\n\nGGUF files{of} for llama.cpp and programs built on it{by}.\n"


def section(p: Publishing, entries: Sequence[Entry]) -> str:
    """Our part: files, commands, hashes; between marks that hold its hash, so that a change by hand is seen."""
    text = "".join(f"{line}\n" for line in _lines(p, entries))
    return f"{MARK.format(_digest(text))}\n{text}{END}\n"


def _lines(p: Publishing, entries: Sequence[Entry]) -> list[str]:
    context = max((one.context for one in entries), default=0)
    lines = ["## Files", "", f"| file | quantisation | bits per weight | size | memory at {context:,} tokens |"]
    lines.append("|---|---|---|---|---|")
    for one in entries:
        more = f" and {len(one.files) - 1} more" if len(one.files) > 1 else ""
        what = f" ({cell(one.what)})" if one.what else ""
        bits = f"{one.bits:.2f}" if one.bits else ""
        memory = human(one.memory) if one.memory else ""
        if one.memory and one.context != context:
            memory += f" ({one.context:,})"
        lines.append(f"| `{cell(one.name)}`{more}{what} | {one.quantisation} | {bits} | {human(one.size)} | {memory} |")
    commands = [one for one in entries if one.command]
    if commands:
        lines += ["", "## Run", "", "```sh", *(shell(one.command) for one in commands), "```"]
        lines += ["", "The memory is that of weights, KV cache in f16 and compute buffers without a GPU."]
    files = [(name, p.hashes[name]) for one in entries for name in one.files if name in p.hashes]
    if files:
        lines += ["", "## Check", "", "```sh", "sha256sum --check --ignore-missing SHA256SUMS", "```", ""]
        lines += ["| file | sha256 |", "|---|---|", *(f"| `{cell(name)}` | `{digest}` |" for name, digest in files)]
    return lines


def cell(text: str) -> str:
    """A text out of a file, harmless in Markdown and in one cell of a table."""
    plain = "".join(c if c.isprintable() else "?" for c in text)
    return re.sub(r"([\\`*\[\]<>|])", lambda m: "'" if m[1] == "`" else "\\" + m[1], plain)[:200]
