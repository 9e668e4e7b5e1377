"""``gguftool compat``, and the options that name a llama.cpp: what real files need, and what builds do with them.

Since which build a name is known was read from llama.cpp's history: gemma3 came with b4875 (2025-03-12), the
pre-tokenizer of SmolLM with b3440 (2024-07-22), MXFP4 with b6096 (2025-08-05), tokenizer.ggml.pre with b2761.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from gguftool.api.compat import loading
from gguftool.facts import editions
from gguftool.predict import Prediction
from gguftool.predict.needs import Need
from tests.build import GGUF
from tests.projectors import SOUND

REFUSED = (
    "llama_model_load: error loading model: error loading model architecture: unknown model architecture: 'gemma3'"
)


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """A llama-server that says it is of b4798."""
    program = tmp_path / "llama-server"
    program.write_text("#!/bin/sh\necho 'version: 4798 (1782cdfe)' >&2\n")
    program.chmod(0o755)
    return program


def test_what_a_real_model_needs(cli: Any, gemma3: Path) -> None:
    found = cli("compat", gemma3, "--format", "json")
    assert found.code == 0
    needs = {n["what"]: (n["since"], n["not_in"]) for n in found.json["needs"]}
    assert needs["architecture gemma3"] == (4875, 4874)
    assert needs["tensor type Q4_K"] == (1046, None)
    assert found.json["since"] == 4875
    assert found.json["sentence"] == "needs llama.cpp b4875 or newer (architecture gemma3)"
    verdicts = {b["build"]: b["verdict"] for b in found.json["builds"]}
    assert min(verdicts) > 1700
    assert all((v == "refused") == (b < 4875) for b, v in verdicts.items())
    assert {s["package"] for s in found.json["shipped"]} >= {"llama-cpp-python", "xllamacpp", "node-llama-cpp"}
    assert all(s["since"] >= 4875 for s in found.json["shipped"])
    shown = cli("compat", gemma3)
    assert "b4875 (2025-03-12)" in shown.out
    assert "needs llama.cpp b4875 or newer (architecture gemma3)" in shown.out


@pytest.mark.parametrize("build", ["b4798", "4798"])
def test_one_build_as_lint_has_it(cli: Any, gemma3: Path, build: str) -> None:
    one = cli("compat", gemma3, "--build", build, "--format", "json")
    assert one.code == 1
    assert (one.json["verdict"], one.json["messages"]) == ("refused", [REFUSED])
    linted = cli("lint", gemma3, "--no-config", "--build", build, "--format", "json")
    load = linted.json["files"][0]["load"]
    assert (load["verdict"], load["messages"]) == ("refused", [REFUSED])
    assert [f["rule"] for f in linted.json["files"][0]["findings"] if f["severity"] == "error"] == ["load-refused"]
    assert linted.json["files"][0]["needs"] == [n for n in one.json["needs"] if n["refuses"]]


def test_the_build_of_a_program_and_of_a_package(cli: Any, gemma3: Path, server: Path) -> None:
    """llama-cpp-python 0.3.7 carries a llama.cpp of January 2025, 0.3.8 one with gemma3."""
    said = cli("compat", gemma3, "--server", server)
    assert said.code == 1
    assert "llama.cpp b4798 refuses it" in said.out
    assert cli("compat", gemma3, "--llama-cpp-python", "0.3.7").code == 1
    assert cli("compat", gemma3, "--llama-cpp-python", "0.3.9").code == 0
    line = cli("lint", gemma3, "--no-config", "--server", server)
    assert "llama.cpp b4798 refuses it" in line.out
    unknown = cli("compat", gemma3, "--llama-cpp-python", "9.9")
    assert unknown.code == 2


def test_what_is_no_build(cli: Any, gemma3: Path) -> None:
    assert cli("compat", gemma3, "--build", "latest").code == 2
    assert cli("compat", gemma3, "--build", "1", "--llama-cpp-python", "0.3.9").code == 2
    newer = cli("compat", gemma3, "--build", "99999")
    assert newer.code == 0
    assert "newer than b" in newer.err


def test_lint_says_what_is_needed(cli: Any, smollm2: Path) -> None:
    (line,) = [row for row in cli("lint", smollm2, "--no-config").out.splitlines() if row.startswith("  load")]
    assert line.endswith("; needs llama.cpp b3440 or newer (pre-tokenizer smollm)")


def test_a_folder_for_one_server(cli: Any, gemma3: Path, smollm2: Path) -> None:
    found = cli("scan", gemma3, smollm2, "--build", "b4798", "--no-lint", "--format", "json")
    assert found.code == 1
    rows = {row["path"]: (row["load"], row["said"]) for row in found.json["models"]}
    assert rows[str(gemma3)] == ("refused", REFUSED)
    assert rows[str(smollm2)] == ("loads", None)
    shown = cli("scan", gemma3, smollm2, "--build", "4798", "--no-lint")
    assert "llama.cpp b4798 does not load 1 of them" in shown.out
    assert cli("scan", gemma3, smollm2, "--build", "b4875", "--no-lint").code == 0


def test_side_files(cli: Any, tmp_path: Path) -> None:
    """A projector by its type, tensors by theirs; a build that never was looked at for what no build has."""
    made = GGUF().kv("general.architecture", "clip").kv("clip.has_vision_encoder", value=True)
    made.kv("clip.projector_type", "qwen2.5vl_merger").tensor("v.patch_embd.weight", (32, 32), "f32")
    (tmp_path / "mmproj.gguf").write_bytes(made.bytes())
    needs = cli("compat", tmp_path / "mmproj.gguf", "--format", "json").json["needs"]
    assert {n["what"]: n["since"] for n in needs if n["refuses"]} == {
        "projector type qwen2.5vl_merger": 5196, "tensor type F32": 1046,
    }  # fmt: skip


def test_doctor_for_a_saved_command(cli: Any, tmp_path: Path) -> None:
    unit = tmp_path / "llama.service"
    unit.write_text("[Service]\nExecStart=/usr/bin/llama-server -m /m.gguf --ctx-size 4096 -np 1\n")
    found = cli("doctor", "--command", unit, "--format", "json")
    (command,) = found.json["upgrade"]["commands"]
    assert (command["where"], command["breaks"]) == ("ExecStart", False)
    assert cli("doctor", "--command", tmp_path / "none").code == 2


def test_code_that_refuses_what_names_allow() -> None:
    """The last stored build that refuses keys and tensors, and the next one: the interval that is known."""
    stored = editions.builds()
    asked: list[int] = []

    def by(build: int) -> Prediction:
        asked.append(build)
        return Prediction("loads" if build >= stored[3] else "refused", "tensors", build=build)

    named = Need("architecture", "x", stored[6], stored[6] - 1)
    (found,) = loading(by, [named])
    assert (found.since, found.not_in, found.refuses) == (stored[3], stored[4], True)
    assert min(asked) == stored[4]
    assert loading(lambda n: Prediction("loads", "done", build=n), [named]) == ()
    assert loading(lambda n: Prediction("refused", "data", build=n), [named]) == ()


def test_a_header_alone_is_judged_as_the_whole_file(cli: Any, smollm2: Path, tmp_path: Path) -> None:
    """What builds do with the model is asked, not what they do with a file that is cut off."""
    head = tmp_path / "header.gguf"
    head.write_bytes(smollm2.read_bytes()[: 6 << 20])
    found = cli("compat", head, "--format", "json")
    assert found.json["cut"] is True
    assert found.json["builds"][-1]["verdict"] == "loads"
    assert cli("compat", head, "--build", "b11434").code == 1


def test_a_very_long_template_needs_the_newer_engine(cli: Any, tmp_path: Path) -> None:
    """64,000 characters end b4798 and b7551 at their start; the engine that reads them came with b7756."""
    for size, asked in ((64_000, {"template engine jinja": (7756, 7755)}), (9_000, {})):
        made = GGUF().kv("general.architecture", "llama").kv("tokenizer.chat_template", "a" * size)
        (tmp_path / "m.gguf").write_bytes(made.tensor("token_embd.weight", (32, 32), "f32").bytes())
        needs = cli("compat", tmp_path / "m.gguf", "--build", "b7551", "--format", "json").json["needs"]
        found = {n["what"]: (n["since"], n["not_in"]) for n in needs if n["kind"] == "template_engine"}
        assert found == asked


def test_a_header_that_breaks_off(cli: Any, smollm2: Path, tmp_path: Path) -> None:
    """As for lint: it cannot be read to its end, and what a build says of it is told all the same."""
    (tmp_path / "cut.gguf").write_bytes(smollm2.read_bytes()[:5000])
    found = cli("compat", tmp_path / "cut.gguf", "--build", "b11434", "--format", "json")
    assert found.code == 3
    assert found.json["verdict"] == "refused"
    assert found.json["errors"]


def test_headers_whose_names_say_nothing(cli: Any, tmp_path: Path) -> None:
    """llama.cpp on a machine of the other byte order reads the version as 50331648, and no names."""
    turned = GGUF("llama").tensor("token_embd.weight", (64, 8)).big_endian().write(tmp_path / "turned.gguf")
    found = cli("compat", turned)
    assert found.code == 1
    assert "it is big-endian" in found.out
    assert "every llama.cpp" not in found.out
    # no package helps where every build refuses it
    assert "who ships such a build" not in found.out
    assert "unknown  names" in next(line for line in found.out.splitlines() if line.startswith("  b1743"))


def test_a_refusal_whose_words_are_not_known_has_its_reason(cli: Any, tmp_path: Path) -> None:
    file = SOUND["gemma3"]().gguf().write(tmp_path / "mmproj.gguf")
    found = cli("compat", file, "--build", "b4000")
    assert found.code == 1
    assert "llama.cpp b4000 refuses it: it does not know projector type gemma3" in found.out
    assert "does not know projector type gemma3" in cli("scan", "--build", "b4000", tmp_path).out
    with_it = cli("compat", file, "--build", "b6123")
    assert "loads it; open: of llama.cpp b6123 only the type of the projector is known (by the code of b11434)" in (
        with_it.out
    )


def test_a_header_of_millions_of_strings_is_walked_once_for_all_builds(cli: Any, tmp_path: Path) -> None:
    """Two minutes of the processor, when every build walked it for itself."""
    from tests.fuzz.costly import every
    from tests.fuzz.sparse import packed, unpacked, write

    _, pieces = unpacked(packed(every()["tokens-beyond"]()))
    write(tmp_path / "m.gguf", pieces)
    before = time.process_time()
    found = cli("compat", tmp_path / "m.gguf")
    assert time.process_time() - before < 10
    assert "goes on for more than 2,097,152 strings" in found.out
