"""Small pages of every kind, made once: of models that have something to show in each section."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import gguftool
from gguftool.api.glance import glance
from gguftool.api.report import Reported
from gguftool.report.page.render import report_page
from tests import projectors
from tests.build import GGUF, llama

CHAT = "{% for m in messages %}{{ '<s>' + m.role + ': ' + m.content + '</s>' }}{% endfor %}"
HOSTILE = '"><script>alert(1)</script><img src=https://evil.example/x.png onerror=alert(2)>'
ADDRESS = "javascript:alert(3)//https://evil.example/\u202ereversed"


def model(**more: object) -> GGUF:
    """Two layers, a template, an error that has a fix, warnings."""
    more = {"tokenizer.chat_template": CHAT, "llama__rope__scaling__type": "yarn", **more}
    return llama(layers=2, **more)


def hostile() -> GGUF:
    """Every text that a file can hold is markup, or an address that is a script."""
    g = model(
        general__name=HOSTILE, general__url=ADDRESS, general__license=HOSTILE, general__tags=[HOSTILE, ADDRESS],
        tokenizer__chat_template=HOSTILE + "{{ messages[0].content }}</pre>" + ADDRESS,
    ).kv(HOSTILE, ADDRESS).kv(ADDRESS, HOSTILE)  # fmt: skip
    tokens = [f"{HOSTILE}{i}" if i % 2 else f"{ADDRESS}{i}" for i in range(291)]
    return g.replace("tokenizer.ggml.tokens", tokens).tensor(HOSTILE, (64, 64)).tensor(ADDRESS[:60], (32, 32), "q4_0")


@cache
def pages(folder: Path) -> dict[str, str]:
    """The page of a model, a pair, a repository, a fleet, by kind.

    Args:
        folder: an empty one.
    """
    one = model().write(folder / "fleet" / "good.gguf")
    llama(layers=1, llama__rope__freq_base=-5.0).tensor("extra", (256, 4), "q4_k").write(folder / "fleet" / "bad.gguf")
    model().truncate(9000).write(folder / "fleet" / "cut.gguf")
    eye = projectors.mlp().gguf().write(folder / "mmproj.gguf")
    found = {
        "model": gguftool.report(one, data=True, hashes=True, ctx=2048, ram="4GiB"),
        "pair": gguftool.report(one, mmproj=str(eye), ram="4GiB"),
        "repository": Reported("hf://owner/repo", glance=glance(str(folder / "fleet"), ram="1MiB")),
        "fleet": gguftool.report(folder / "fleet"),
    }
    return {kind: report_page(x) for kind, x in found.items()}
