"""What models say next, against what the real llama-perplexity (b11434) made of the same files, text and chunks."""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool.errors import ToolFailed, UsageError
from gguftool.run.divergence import Compared, Outcome, Reader, apart, divergence
from gguftool.run.measurer import available
from gguftool.run.perplexity import parse_base, parse_comparison
from tests.build import llama
from tests.run.divergent import KINDS, main, sized

needs_library = pytest.mark.skipif(not available(), reason="xllamacpp is not installed in the version we know")
RECORDED = Path(__file__).parent.parent / "data" / "llamacpp"
BY_THE_PROGRAM = {kind: (RECORDED / f"divergence.{kind}.txt").read_text("utf-8") for kind in KINDS}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("divergent")
    main(folder)
    return folder


@pytest.fixture(scope="module")
def measured(models: Path) -> Compared:
    return divergence([Reader(str(models / f"{kind}.gguf")) for kind in KINDS], tokens=1024, engine="library")


@needs_library
def test_the_reference_is_what_the_program_says(measured: Compared) -> None:
    base = measured.outcomes[0]
    said = parse_base(BY_THE_PROGRAM["f32"])
    assert base.perplexity == pytest.approx(said["perplexity"], rel=2e-5)
    assert base.perplexity_error == pytest.approx(said["perplexity_error"], rel=1e-4)
    assert (base.divergence, base.same_first, base.perplexity_ratio, base.change) == (0.0, 1.0, 1.0, 0.0)
    assert (measured.tokens, measured.compared) == (1024, 510)


@needs_library
@pytest.mark.parametrize("kind", KINDS[1:])
def test_every_figure_is_what_the_program_says(measured: Compared, kind: str) -> None:
    """The program keeps what the reference says in 16 bits, which moves its divergences by up to 2e-4 nats."""
    found = measured.outcomes[KINDS.index(kind)]
    said = parse_comparison(BY_THE_PROGRAM[kind])
    close = {"perplexity": 5e-5, "perplexity_error": 5e-5, "perplexity_ratio": 1e-4, "ratio_error": 3e-4}
    for name, rel in close.items():
        assert getattr(found, name) == pytest.approx(said[name], rel=rel), name
    for name in ("divergence", "divergence_error", "median", "divergence_high", "highest", "largest"):
        assert getattr(found, name) == pytest.approx(said[name], abs=4e-4), name
    # These are printed as percent with three decimals.
    for name in ("same_first", "same_error", "change", "change_error", "change_rms", "rms_error"):
        assert getattr(found, name) == pytest.approx(said[name], abs=1e-5), name


@needs_library
def test_what_differs_lies_in_the_positions(measured: Compared) -> None:
    import numpy as np

    base, q8, q4 = measured.outcomes
    assert len(q8.divergences) == len(q4.surprises) == 510
    more, error = apart(q8, q4)
    each = np.array(q4.divergences) - np.array(q8.divergences)
    assert more == pytest.approx(q4.divergence - q8.divergence)
    assert error == pytest.approx(each.std(ddof=1) / 510**0.5)
    assert apart(q8, q8) == (0.0, 0.0)
    alone = Outcome(base.reader, divergence=0.5, divergence_error=0.03)
    assert apart(alone, Outcome(base.reader, divergence=0.9, divergence_error=0.04)) == (
        pytest.approx(0.4),
        pytest.approx(0.05),
    ), "errors add up as squares where no position is known"


@needs_library
def test_models_that_cut_the_text_otherwise_are_refused(models: Path, tmp_path: Path) -> None:
    other = sized("f32")
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + [f"▁t{i}" for i in range(31)] + ["he"]
    other.replace("tokenizer.ggml.tokens", tokens).write(tmp_path / "other.gguf")
    readers = [Reader(str(models / "f32.gguf")), Reader(str(tmp_path / "other.gguf"))]
    with pytest.raises(UsageError, match="other tokens"):
        divergence(readers, tokens=64, chunk=32, engine="library")


@needs_library
def test_a_model_that_does_not_load_is_named(models: Path, tmp_path: Path) -> None:
    llama().drop_tensor("blk.0.ffn_up.weight").write(tmp_path / "lame.gguf")
    with pytest.raises(ToolFailed, match=r"lame\.gguf"):
        divergence([Reader(str(models / "f32.gguf")), Reader(str(tmp_path / "lame.gguf"))], engine="library")
