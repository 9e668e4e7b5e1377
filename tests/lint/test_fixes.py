"""Fixes: each one that is offered can be applied, heals its finding, and is told as a command that works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gguftool.edit.ops import apply
from gguftool.format.header import Header
from gguftool.format.render import render_parts
from gguftool.lint.fixes import collect
from gguftool.lint.rule import Finding
from gguftool.lint.run import lint
from gguftool.model import Model, from_source, open_model
from gguftool.model.unreadable import unreadable
from gguftool.report.lint import fix_command
from tests.build import GGUF, llama
from tests.lint.samples import Sample, all_samples, open_content, ready, zeroed
from tests.predict.recipes import Hole

# Samples that are whole files a builder writes; those that are made of shards or raw bytes have no single file to fix.
WRITTEN = [s for s in all_samples() if isinstance(s.fires, GGUF)]
# What cannot be seen in the header alone after the fix: the data moves with it, or is not read here.
NOT_IN_THE_HEADER = {
    "tensor-offset-gap",
    "trailing-bytes",
    "final-padding-missing",
    "data-start-misaligned",
    "alignment-unusual",
    "tokenizer-texts-differ",  # what differs was found beforehand, of the file as it was
}


def found_by(sample: Sample, model: Model) -> list[Finding]:
    if sample.rule.startswith("load-"):  # speaks when no other rule does
        return [f for f in lint(model, sample.context) if f.rule == sample.rule]
    return list(lint(model, sample.context, select=[sample.rule], load=False))


def reread(header: Header, size: int) -> Model:
    """The model as a reader finds it after the edit, its data a hole."""
    data = render_parts(header.layout, header.fields, header.tensors)
    return from_source(Hole(data, "m.gguf", max(size, header.data_end() or 0, len(data))), strict=False)


def _ids(samples: list[Sample]) -> list[str]:
    return [f"{s.rule}-{i}" for i, s in enumerate(samples)]


@pytest.mark.parametrize("sample", WRITTEN, ids=_ids(WRITTEN))
def test_operations_heal(sample: Sample) -> None:
    with open_content(sample.fires) as m:
        if unreadable(m) is not None:
            assert not [f for f in found_by(sample, m) if f.fix is not None and f.fix.operations]
            return
        for f in found_by(sample, m):
            if f.fix is None or not f.fix.operations:
                continue
            header = apply(f.fix.operations, m.header)
            if f.rule in NOT_IN_THE_HEADER:
                continue
            healed = reread(header, m.file_size)
            again = [(g.rule, g.where, g.severity) for g in found_by(sample, healed)]
            assert (f.rule, f.where, f.severity) not in again


@pytest.mark.parametrize("sample", WRITTEN, ids=_ids(WRITTEN))
def test_commands_work(sample: Sample, tmp_path: Path, cli) -> None:  # type: ignore[no-untyped-def]
    """The printed line is run, with --dry-run; of lines with a blank to fill in, the options are checked."""
    path = zeroed(sample.fires).write(tmp_path / "m.gguf")  # type: ignore[arg-type]
    with open_model(path, strict=False) as m:
        if unreadable(m) is not None:
            # The header breaks off: nothing can be written.
            assert not [f for f in found_by(sample, m) if f.fix is not None and f.fix.operations]
            return
        commands = {fix_command(f.fix, str(path)): f for f in found_by(sample, m) if f.fix is not None}
    for command, finding in commands.items():
        assert command, finding.rule
        words = shlex.split(command)
        if words[0] != "gguftool":
            continue
        # The folder that a model is held against is none of the disk.
        folder = "--against" in words or any(word.startswith("./hf/") for word in words)
        if finding.fix is not None and finding.fix.operations and not folder:
            result = cli(*words[1:], *(("--diff", "--exit-zero") if words[1] == "lint" else ("--dry-run",)))
            assert result.code == 0, (command, result.err)
        else:
            _options_exist(words)


def _options_exist(words: list[str]) -> None:
    from importlib import import_module

    from gguftool.cli.group import TABLE

    module = {e.name: e.module for e in TABLE}[words[1]]
    try:
        command = getattr(import_module(f"gguftool.cli.{module}"), module)
    except ModuleNotFoundError:
        return  # another command's own tests tell that it is missing
    known = {name for param in command.params for name in param.opts}
    for word in words:
        if re.match(r"--[a-z]", word):
            assert word.partition("=")[0] in known, word


def test_safe_fixes_do_not_fight() -> None:
    """Applying all safe fixes of a file leaves none of them, whatever the file."""
    for sample in WRITTEN:
        with open_content(sample.fires) as m:
            if unreadable(m) is not None:
                continue
            fixes = collect(m, sample.context)
            if not fixes.operations:
                assert not [f for f in fixes.findings if f.rule not in NOT_IN_THE_HEADER], sample.rule
                continue
            header = apply(fixes.operations, m.header)
            healed = reread(header, m.file_size)
            rest = collect(healed, sample.context)
            left = [f.rule for f in rest.findings if f.rule not in NOT_IN_THE_HEADER]
            assert left == [], sample.rule


def test_safe_fixes_keep_what_llama_cpp_computes() -> None:
    """On a file that loads, the safe fixes change records only: no key that llama.cpp reads gets another value."""
    from gguftool.facts.keys import read_keys

    for g in (llama(), llama(arch="qwen2"), llama(arch="gemma"), ready().drop("llama.kv_cache_type")):
        with open_content(g) as m:
            ops = collect(m).operations
            assert ops
            header = apply(ops, m.header)
            for key in read_keys(m.architecture):
                old, new = m.header.get(key), header.get(key)
                assert (old is None) == (new is None), key
                assert old is None or new is None or old.raw == new.raw, key
