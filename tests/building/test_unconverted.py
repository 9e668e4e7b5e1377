"""What the converter says when it stops, translated: recorded ends of real runs, and every place that raises."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gguftool.build.folder.look import look
from gguftool.build.process import Ended
from gguftool.build.unconverted import explain
from gguftool.errors import NoRoom
from gguftool.facts.data import load
from gguftool.facts.unconverted import Fault, fault, meaning
from tests.building.faulty import FAULTS
from tests.building.raises import recorded, rows

ENDS = Path(__file__).parents[1] / "data" / "building" / "converter_ends.json.gz"
OWN = ("converter", "fit")
"""Kinds that are a fault of the converter's own code."""


def ends() -> dict[str, dict[str, Any]]:
    return json.loads(gzip.decompress(ENDS.read_bytes()))


@pytest.mark.parametrize("which", ["release", "packaged"])
@pytest.mark.parametrize("name", FAULTS)
def test_the_end_of_a_real_run(which: str, name: str, tmp_path: Path) -> None:
    end = ends()[which][name]
    assert end["code"]
    found = fault(end["lines"])
    (tmp_path / "config.json").write_text('{"num_hidden_layers": 1}')
    told = meaning(found, 1)
    assert told is not None
    assert told.kind == FAULTS[name][2]
    error = explain(Ended(end["code"], tuple(end["lines"]), 1.0), look(str(tmp_path)), "x.log")
    assert told.cause in str(error)
    assert str(error).endswith("its log: x.log")
    assert error.hint
    assert "something" not in told.cause.split("(")[0].split() or "lacks" in told.cause


def test_a_bare_assertion_is_told_by_its_line(tmp_path: Path) -> None:
    error = explain(Ended(1, tuple(ends()["release"]["vocab-grown"]["lines"]), 1.0), look(str(tmp_path)), None)
    assert "vocab_size" in str(error)
    assert "assert max(tokenizer.vocab.values()) < vocab_size" in str(error)
    assert "conversion/base.py, get_vocab_base" in str(error)


def test_every_place_that_raises_is_answered() -> None:
    kinds: Counter[str] = Counter()
    silent = []
    for file, number, function, error, said, line in recorded():
        told = meaning(Fault(error, said, file, function, line))
        if told is None:
            silent.append((file, number, said or line))
            continue
        kinds[told.kind] += 1
        assert told.cause
        assert told.way
        assert not re.search(r"\{(?:0|1|line)\}", told.cause), told.cause
    assert not silent
    assert sum(kinds.values()) == 706
    # its own code: writer, lazy tensors, classes that lack a method; no folder is to blame
    assert sum(kinds[k] for k in OWN) < 60


@pytest.mark.real
def test_the_places_are_those_of_the_source() -> None:
    from tests.llama_cpp_source import CannotFetch, source_tree

    try:
        found = list(rows(source_tree()))
    except CannotFetch as why:
        pytest.skip(str(why))
    names = {row[0] for row in found}
    assert found == [row for row in recorded() if row[0] in names]
    assert len(found) > 690


def test_only_a_layer_behind_the_last_is_one_too_many() -> None:
    said = Fault(
        "ValueError", "Can not map tensor 'model.layers.4.odd.weight'", "conversion/base.py", "map_tensor_name"
    )
    assert [m.kind for n in (3, 4, 5) if (m := meaning(said, n))] == ["layers", "layers", "tensor"]
    assert [m.kind for m in (meaning(said),) if m] == ["tensor"]


def test_a_warning_before_the_end_does_not_count() -> None:
    lines = [
        "WARNING:hf-to-gguf:Failed to load model config from /m: trust_remote_code=True is needed, custom code",
        "Traceback (most recent call last):",
        '  File "/x/conversion/base.py", line 630, in map_tensor_name',
        '    raise ValueError(f"Can not map tensor {name!r}")',
        "ValueError: Can not map tensor 'model.odd'",
    ]
    told = meaning(fault(lines))
    assert told is not None
    assert told.kind == "tensor"


def test_of_a_chain_the_last_counts() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/x/conversion/llama.py", line 130, in set_vocab',
        "    self._set_vocab_sentencepiece()",
        "FileNotFoundError: File not found: /m/tokenizer.model",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "/x/conversion/base.py", line 1590, in get_vocab_base',
        "    assert max(tokenizer.vocab.values()) < vocab_size",
        "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "AssertionError",
    ]
    found = fault(lines)
    assert (found.file, found.function, found.error) == ("conversion/base.py", "get_vocab_base", "AssertionError")
    told = meaning(found)
    assert told is not None
    assert told.kind == "vocab-grown"


OUTSIDE = [
    ("OSError: [Errno 28] No space left on device", 1, "ran out of disk"),
    ("convert_hf_to_gguf.py: error: unrecognized arguments: --fuse-qkv", 2, "has no such option or value (--fuse-qkv)"),
    ("ERROR:hf-to-gguf:--mtp, --no-nextn, and --dspark are mutually exclusive", 1, "exclude each other"),
    ("ImportError: Mistral format requires `mistral-common` to be installed.", 1, "lacks mistral-common"),
    ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 9.00 GiB for an array", 1, "not enough memory"),
    ("safetensors_rust.SafetensorError: Error while deserializing header", 1, "shorter than its own header says"),
    ("", -9, "killed, most likely for lack of memory"),
    ("", 137, "killed, most likely for lack of memory"),
    ("", -11, "crashed in a library"),
    ("something nobody knows", 1, "the converter failed (exit code 1): something nobody knows"),
]


@pytest.mark.parametrize(("line", "code", "words"), OUTSIDE)
def test_ends_outside_of_its_code(line: str, code: int, words: str, tmp_path: Path) -> None:
    error = explain(Ended(code, (line,) if line else (), 1.0), look(str(tmp_path)), None)
    assert words in str(error)
    assert error.hint
    assert isinstance(error, NoRoom) == ("disk" in words)


def test_rows_are_whole() -> None:
    for row in load("converter_errors.json")["rows"]:
        assert {"kind", "cause", "way"} < set(row)
        assert set(row) <= {"kind", "cause", "way", "error", "said", "file", "function", "line", "beyond"}


def test_doctor_knows_a_pasted_traceback(cli) -> None:
    text = "\n".join(ends()["release"]["vocab-grown"]["lines"])
    result = cli("doctor", "--error", text, "--format", "json")
    assert result.code == 0, result.err
    assert "convert-vocab-grown" in result.out
    assert "vocab_size" in result.out
    other = text.replace("conversion/base.py", "x.py").replace("/gguf/", "/y/").replace("convert_hf_to_gguf", "z")
    assert "convert-vocab-grown" not in cli("doctor", "--error", other, "--format", "json").out
