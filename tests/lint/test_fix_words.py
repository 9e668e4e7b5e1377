"""Every fix of every rule, with hostile keys, architectures, tensor names, texts and paths, as a shell reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gguftool.edit.ops import Delete, Operation, Realign, Rename, Reserve, Set, SetElement
from gguftool.lint.policy import Policy
from gguftool.lint.rule import Fix
from gguftool.lint.run import lint
from gguftool.model import from_source
from gguftool.report.lint import LONGEST, finding_json, fix_command
from gguftool.shell import ELLIPSIS, Blank, Mark
from gguftool.source import Memory
from tests.build import GGUF
from tests.lint.samples import Sample, all_samples, ready, zeroed
from tests.shell_words import NASTY, SHELLS, calls

SAMPLES = [s for s in all_samples() if isinstance(s.fires, GGUF)]
PATH = "-" + NASTY
# "=", ":u8" and "[3]" are how `--set` tells keys from types and values.
TAILS = (NASTY, "=" + NASTY, ":u8", "[3]", "\0", "." + NASTY)
PROGRAMS = ("gguftool", "mkdir", "mv", "head", "gguf-convert-endian")


def elsewhere(sample: Sample) -> dict[str, object]:
    """Hostile names for the folder of models, the source folder and the keys of the policy."""
    against = sample.context.against
    policy = replace(
        sample.context.policy or Policy(),
        required_keys=tuple(f"llama.x{tail}" for tail in TAILS),
        forbidden_keys=tuple(f"llama.block_count{tail}" for tail in TAILS),
    )
    return {
        "policy": policy,
        "models_folder": NASTY,
        "against": None if against is None else replace(against, name=NASTY),
    }


def hostile(sample: Sample) -> Iterator[GGUF]:
    """The file of a sample: as it is, with hostile twins of all keys, as architecture, tensor names, texts."""
    g = sample.fires
    assert isinstance(g, GGUF)
    g = zeroed(g.copy())
    yield g
    keys = [e for e in g._kv if isinstance(e, tuple) and isinstance(e[0], str)]
    twins = g.copy()
    for tail in TAILS:
        for key, value, kind in keys:
            if not key.startswith("tokenizer.ggml.tokens"):
                twins.kv(key + tail, value, kind)
    yield twins
    arch = g.copy()
    arch._kv = [
        (
            k.replace("llama.", f"llama{NASTY}.", 1),
            f"llama{NASTY}" if k == "general.architecture" and isinstance(v, str) else v,
            t,
        )
        for k, v, t in keys
    ]
    yield arch
    named = g.copy()
    for t in named._tensors:
        t["name"] += NASTY
    yield named
    said = g.copy()
    said._kv = [(k, v + NASTY if isinstance(v, str) and k != "general.architecture" else v, t) for k, v, t in keys]
    yield said


def meant(op: Operation) -> tuple[str, str]:
    """The option of an operation, and what its value begins with."""
    match op:
        case Set():
            return "--set", op.key
        case SetElement():
            return "--set", f"{op.key}[{op.index}]="
        case Delete():
            return "--delete", op.key
        case Rename():
            return "--rename", f"{op.old}={op.new}"
        case Realign() | Reserve():
            return f"--{type(op).__name__.lower()}", ""
        case _:
            return {"Strip": "--strip-padding"}.get(type(op).__name__, f"--{type(op).__name__.lower()}"), ""


def check(fix: Fix, rule: str, read: list[list[str]]) -> None:
    """Compare what the stand-ins were called with to what the fix means."""
    words = [word for call in read for word in call]
    file = "./" + PATH
    if fix.command is not None:
        operators = {Mark.AND, Mark.PIPE}
        expected = [file if w is Mark.FILE else str(w) for w in fix.command if w not in operators]
        if Mark.INTO in fix.command:
            expected = expected[: fix.command.index(Mark.INTO)]
        assert words == expected
        return
    if words[1] == "lint":
        assert words == ["gguftool", "lint", file, "--select", rule, "--fix" if fix.safe else "--fix-unsafe"]
        return
    assert words[:3] == ["gguftool", "fix", file]
    rest = words[3:]
    for op in fix.operations:
        option, begins = meant(op)
        assert rest.pop(0) == option
        if begins or option in ("--realign", "--reserve"):
            value = rest.pop(0)
            assert value.startswith(begins)
            assert option != "--set" or value[len(begins) :][:1] in ("=", ":") or "]=" in begins
            assert option not in ("--delete", "--rename") or value == begins
    assert rest == []


def test_every_fix_is_read_as_it_was_meant(tmp_path: Path) -> None:
    found: dict[str, tuple[Fix, str]] = {}
    rules: set[str] = set()
    for sample in SAMPLES:
        first = sample.rule not in {rule for _, rule in found.values()}
        for g in hostile(sample) if first else [zeroed(sample.fires.copy())]:
            with from_source(Memory(g.bytes(), PATH), strict=False) as m:
                context = replace(sample.context, **elsewhere(sample))
                fixes = [f for f in lint(m, context, select=[sample.rule], load=False).findings if f.fix is not None]
            for f in fixes:
                assert f.fix is not None
                rules.add(f.rule)
                line = fix_command(f.fix, f.path, f.rule)
                assert line, f.rule
                assert line.isprintable(), f.rule
                assert "\0" not in line
                found.setdefault(line, (f.fix, f.rule))
            if not fixes and sample.rule not in rules:
                break  # a rule that offers nothing for the plain file
    fixable = {s.rule for s in SAMPLES if s.fix}
    assert fixable <= rules
    assert len(found) > 210
    for name in SHELLS:
        read = calls("\n".join(found), tmp_path, shell=name, programs=PROGRAMS, made=frozenset({"part1.gguf"}))
        # A line is one call, or as many as its operators make.
        for fix, rule in found.values():
            count = 1 + sum(w in (Mark.AND, Mark.PIPE) for w in fix.command or ())
            check(fix, rule, [read.pop(0) for _ in range(count)])
        assert read == []


def test_what_a_person_must_choose_is_told_and_taken_by_no_option(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    seen = 0
    for sample in SAMPLES:
        g = sample.fires
        assert isinstance(g, GGUF)
        g = zeroed(g.copy())
        for key, value, kind in [e for e in g._kv if isinstance(e, tuple)]:
            if key == "tokenizer.ggml.tokens" and isinstance(value, list) and len(value) > 9:
                # It is a token of many a vocabulary.
                g.replace(key, [*value[:8], ELLIPSIS, *value[9:]], kind)
        path = g.write(tmp_path / "m.gguf")
        before = path.read_bytes()
        with from_source(Memory(before, str(path)), strict=False) as m:
            for f in lint(m, sample.context, select=[sample.rule], load=False).findings:
                if f.fix is None or f.fix.complete:
                    continue
                seen += 1
                assert finding_json(f)["fix"]["fill_in"] is True  # type: ignore[index]
                assert ELLIPSIS in fix_command(f.fix, f.path, f.rule)
                words = [str(path) if isinstance(w, Mark) else w for w in f.fix.command or ()]
                assert any(isinstance(w, Blank) for w in words)
                result = cli(*words[1:])
                assert result.code in (2, 3), (words, result.err)
                assert path.read_bytes() == before
    assert seen > 20


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "sarif", "github"])
def test_what_every_output_prints_is_read_as_it_was_meant(cli, tmp_path: Path, monkeypatch, form: str) -> None:  # type: ignore[no-untyped-def]
    """A key of a hostile file that was a command in the printed fix: what people copy, and what a bot runs."""
    key = "llama.x$(touch${IFS}PWNED);touch PWNED;'{path} %25 %0A"
    template = f"tokenizer.chat_template.x{NASTY}"
    model = ready().kv(key, float("nan")).kv(template, "{% if %}").write(tmp_path / f"{PATH}.gguf")
    monkeypatch.chdir(tmp_path)
    out = cli("lint", "--no-config", "--no-load", "--format", form, "--exit-zero", "--", model.name).out
    if form in ("json", "jsonl"):
        lines = [f["fix"]["command"] for f in json.loads(out)["files"][0]["findings"] if f["fix"]]
    elif form == "sarif":
        results = json.loads(out)["runs"][0]["results"]
        lines = [r["properties"]["fix"]["command"] for r in results if "fix" in r["properties"]]
        assert [r["message"]["text"].partition(". Fix: ")[2] for r in results if "fix" in r["properties"]] == lines
    elif form == "github":
        found = (line.partition(". Fix: ")[2] for line in out.splitlines())
        lines = [line.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%") for line in found if line]
    else:
        lines = [m[1] for m in re.finditer(r"fix(?: \(fill in …\))?: (gguftool .*)$", out, re.MULTILINE)]
    for name in SHELLS:
        read = calls("\n".join(lines), tmp_path, shell=name)
        assert ["gguftool", "fix", f"./{model.name}", "--set", f"{key}=…"] in read
        assert ["gguftool", "fix", f"./{model.name}", "--set-file", f"{template}=…"] in read


@pytest.mark.parametrize("count", [10, 5000])
def test_a_long_command_names_the_rule_instead_of_being_cut(count: int) -> None:
    fix = Fix("set it", (Set("x.y", "a" * count, "str"),))
    line = fix_command(fix, PATH, "some-rule")
    assert ("--set" in line) is (count < LONGEST)
    assert "…" not in line
