"""The price of a file with latent attention in its old layout: exact bytes, from llama.cpp's own sizes."""

from __future__ import annotations

from pathlib import Path

from gguftool.memory.latent import price, unsplit
from gguftool.model import open_model
from tests.lint.samples_rope import latent


def test_price_of_deepseek_v2_lite(tmp_path: Path, cli) -> None:
    """`llama-kv-cache.cpp` (b11434): K and V rows of all heads; of a model with MLA one row of K and no V."""
    path = latent(split=False).write(tmp_path / "old.gguf")
    with open_model(path) as m:
        assert unsplit(m.arch, m.tensors)
        assert price(m.arch, 8192) == (27 * 16 * (192 + 128) * 8192 * 2, 27 * 576 * 8192 * 2)
    said = cli("plan", "--ctx", "8192", "--ram", "64GiB", str(path)).out
    assert "one made since takes 243.0 MiB of f16 cache for 8,192 tokens instead of 2.1 GiB" in said


def test_a_file_of_today_has_nothing_to_pay(tmp_path: Path) -> None:
    with open_model(latent(split=True).write(tmp_path / "new.gguf")) as m:
        assert not unsplit(m.arch, m.tensors)
