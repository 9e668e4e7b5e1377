"""What lint says of the samples, held against the real llama.cpp library.

Where a finding quotes llama.cpp as refusing a file, the library refuses it, with these words; and a sample on which all
rules are silent loads.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool.lint.run import lint
from gguftool.model import open_model
from gguftool.model.role import role
from gguftool.predict.stages import OTHERS
from tests.build import GGUF
from tests.lint.samples import Sample, all_samples
from tests.oracle.verdicts import judge

pytestmark = pytest.mark.oracle

FAMILIES = ("layout", "metadata", "rope", "shards", "tensors", "quant", "load")


def written(tmp_path: Path) -> list[tuple[Sample, str]]:
    out = []
    for i, s in enumerate(all_samples()):
        content = s.fires.bytes() if isinstance(s.fires, GGUF) else s.fires
        if isinstance(content, bytes):
            path = tmp_path / f"{i}.gguf"
            path.write_bytes(content)
            out.append((s, str(path)))
    return out


def test_quoted_words_are_the_library_s(tmp_path: Path) -> None:
    """An error that quotes llama.cpp alone in its file is what the library says first."""
    checked = refused = 0
    samples = written(tmp_path)
    for (sample, path), judged in zip(samples, judge([p for _, p in samples]), strict=True):
        with open_model(path, strict=False) as m:
            if role(m) in OTHERS:
                continue  # it is no model: `tests/predict` asks its own loader
            report = lint(m, sample.context)
        errors = [f for f in report if f.severity == "error" and f.family in FAMILIES]
        dead = judged.verdict in ("refused", "aborts", "hangs")
        # The prediction of the load and the library agree on every sample.
        assert report.load is not None
        predicted = report.load.verdict in ("refused", "aborts")
        if report.load.verdict != "unknown":
            assert predicted == dead, (sample.rule, report.load, judged)
        quoted = [f for f in errors if "llama_cpp" in f.data]
        if dead:
            # Whatever the library refuses has an error, of this family or another.
            said_so = [f for f in report if f.severity == "error" or f.rule == "not-a-model"]
            assert said_so, (sample.rule, judged)
            refused += 1
        if len(errors) == 1 and quoted and dead and judged.verdict == "refused":
            said = " ".join(judged.errors)
            words = str(quoted[0].data["llama_cpp"])
            assert words.split("(")[0].strip()[:40] in said, (sample.rule, words, judged.errors)
            checked += 1
    assert refused > 60
    assert checked > 25


def test_files_without_errors_run(tmp_path: Path) -> None:
    """A file in which lint finds no error loads, makes a context and decodes."""
    contents = {s.silent.bytes() for s in all_samples() if isinstance(s.silent, GGUF)}
    clean = []
    for i, content in enumerate(sorted(contents)):
        path = tmp_path / f"{i}.gguf"
        path.write_bytes(content)
        with open_model(path, strict=False) as m:
            report = lint(m)
        if not [f for f in report if f.severity == "error" or f.rule == "not-a-model"]:
            clean.append(str(path))
    assert len(clean) > 40
    for path, judged in zip(clean, judge(clean), strict=True):
        assert (judged.verdict, judged.context, judged.use) == ("loads", "ok", "ok"), (path, judged)
