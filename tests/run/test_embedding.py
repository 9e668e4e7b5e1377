"""What launch and plan choose for a model that gives embeddings; what was asked for stays. No server is started.

What llama-server wants was found with b11434: texts over -ub tokens are refused for mean and cls pooling and for every
model without a cache, not for last; -ub counts no more than -b; pooling none is refused by /v1/embeddings.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool.api.preflight import preflight
from gguftool.model import from_source
from gguftool.run.args import own_words
from gguftool.run.emit import emit
from gguftool.run.launch import LaunchPlan, plan_launch
from gguftool.run.wishes import Wishes
from gguftool.source import Memory
from tests.build import GGUF, llama
from tests.embedders import bert, bert_reranker, qwen2, qwen3, qwen3_reranker


def planned(g: GGUF, wishes: Wishes | None = None) -> LaunchPlan:
    return plan_launch(from_source(Memory(g.bytes(), "/m.gguf")), wishes or Wishes())


def long(g: GGUF, tokens: int = 8192) -> GGUF:
    """The same with another context length, and without the table that would contradict it."""
    arch = "qwen3" if any(e[0] == "qwen3.block_count" for e in g._kv if isinstance(e, tuple)) else "bert"
    return g.drop(f"{arch}.context_length").kv(f"{arch}.context_length", tokens).drop_tensor("position_embd.weight")


def said(plan: LaunchPlan) -> dict[str, str]:
    """Options of the command that matter here, switches with an empty value."""
    out, argv = {}, plan.argv
    for i, word in enumerate(argv):
        if word in ("--embeddings", "--rerank"):
            out[word] = ""
        if word in ("--pooling", "-ub", "-b"):
            out[word] = argv[i + 1]
    return out


@pytest.mark.parametrize(
    ("g", "wishes", "options"),
    [
        (bert(), {}, {"--embeddings": "", "-b": "512"}),
        (long(bert(), 1024), {}, {"--embeddings": "", "-ub": "1024", "-b": "1024"}),
        (long(bert(), 8192), {}, {"--embeddings": "", "-ub": "8192", "-b": "8192"}),
        (long(bert(), 8192), {"ctx": 2048}, {"--embeddings": "", "-ub": "2048"}),
        (long(bert(), 8192), {"ctx": 8192, "parallel": 4}, {"--embeddings": "", "-ub": "2048"}),
        # Without a cache every slot gets a whole context.
        (long(bert(), 2048), {"parallel": 4}, {"--embeddings": "", "-ub": "2048"}),
        (long(bert(), 8192), {"ubatch": 600}, {"--embeddings": "", "-ub": "600", "-b": "600"}),
        (long(bert(), 131072), {}, {"--embeddings": "", "-ub": "8192", "-b": "8192"}),
        (bert(pooling=None), {"pooling": "mean"}, {"--embeddings": "", "--pooling": "mean", "-b": "512"}),
        (bert_reranker(), {}, {"--rerank": "", "-b": "512"}),
        (bert_reranker(), {"embeddings": True, "pooling": "cls"},
         {"--embeddings": "", "--pooling": "cls", "-b": "512"}),
        (qwen3(), {}, {"--embeddings": "", "-b": "512"}),
        (long(qwen3(pooling=1), 4096), {}, {"--embeddings": "", "-ub": "4096", "-b": "4096"}),
        (long(qwen3(), 4096), {"pooling": "mean"},
         {"--embeddings": "", "--pooling": "mean", "-ub": "4096", "-b": "4096"}),
        (qwen2(), {}, {"--embeddings": "", "--pooling": "last", "-b": "512"}),
        (qwen3_reranker(), {}, {"--rerank": "", "-b": "512"}),
        (qwen3(), {"extra": ("--embedding",)}, {"--embeddings": "", "-b": "512"}),
        (llama(), {}, {}),
        # Of a model that writes, too, a text has to fit into one graph.
        (llama(), {"embeddings": True, "pooling": "mean"},
         {"--embeddings": "", "--pooling": "mean", "-ub": "2048"}),
        (llama().replace("general.name", "my embedding model"), {}, {}),
    ],
)  # fmt: skip
def test_what_is_chosen(g: GGUF, wishes: dict, options: dict[str, str]) -> None:
    assert said(planned(g, Wishes(**wishes))) == options


def test_slots_of_a_model_without_a_cache() -> None:
    plan = planned(bert(), Wishes(parallel=4))
    c = plan.memory.cache.context
    assert (c.total, c.usable, plan.memory.kv) == (2048, 512, 0)
    shared = planned(bert(), Wishes(parallel=4, kv_unified=True)).memory.cache.context
    assert (shared.total, shared.usable) == (512, 512)


def test_it_is_told() -> None:
    notes = " ".join(planned(long(bert(), 131072)).notes)
    assert "--embeddings is chosen" in notes
    assert "texts over 8192 tokens will be refused" in notes
    assert "--pooling mean, cls or last" in " ".join(planned(bert(pooling=None)).notes)
    assert "gte-Qwen pools last" in " ".join(planned(qwen2()).notes)
    weak = " ".join(planned(llama().replace("general.name", "my embedding model")).notes)
    assert "--embeddings --pooling mean (or cls, last) makes the server give them" in weak
    assert not any("embeddings" in note for note in planned(llama()).notes)


def test_options_about_writing_are_told_to_do_nothing(tmp_path: Path) -> None:
    template = tmp_path / "t.jinja"
    template.write_text("{{ messages }}")
    notes = " ".join(planned(bert(), Wishes(template=str(template), cache_type=("q8_0", "q8_0"))).notes)
    assert "--chat-template-file does nothing here" in notes
    assert "--cache-type does nothing here: this model has no KV cache" in notes
    assert not any("does nothing here" in note for note in planned(bert()).notes)
    behind = " ".join(planned(bert(), Wishes(extra=("--jinja", "--temp", "0.5", "--metrics"))).notes)
    assert "--jinja, --temp do nothing here" in behind


def test_the_plan_counts_the_larger_graph() -> None:
    """Measured with b11434, nomic-bert: 3.26 MiB at -ub 512, more at 2,048; the estimate grows with it."""
    small, large = (planned(long(bert(), 8192), Wishes(ctx=n)).memory.compute for n in (512, 8192))
    assert large > 8 * small


@pytest.mark.parametrize("kind", ["systemd", "docker-compose", "k8s", "llama-swap"])
def test_emitted_files_say_it(kind: str, tmp_path: Path) -> None:
    path = long(bert(), 2048).write(tmp_path / "m.gguf")
    from gguftool.model import open_model

    with open_model(path) as m:
        plan = plan_launch(m, Wishes())
    text = emit(kind, plan)
    assert "--embeddings" in text
    assert "--embeddings" in own_words(plan.wishes)
    assert "2048" in text
    assert "/health" in text or kind == "systemd"


def test_pooling_on_the_command_line_answers_the_rule(tmp_path: Path) -> None:
    path = bert(pooling=None).write(tmp_path / "m.gguf")
    from gguftool.model import open_model

    with open_model(path) as m:
        found = [o.message for o in preflight(str(path), m, plan_launch(m, Wishes()).asked).obstacles]
        assert any(text.startswith("pooling-type-missing") for text in found)
        asked = plan_launch(m, Wishes(pooling="mean")).asked
        assert not any("pooling" in o.message for o in preflight(str(path), m, asked).obstacles)


def test_no_plan_says_that_a_table_of_positions_can_be_raised() -> None:
    """llama.cpp refuses the file whose context_length is not that of the table (bert, gpt2, starcoder, mpt)."""
    from gguftool.memory.notes import warnings
    from gguftool.run.deploy import Found, deploy

    for g, raised in ((bert(), False), (qwen3(), True)):
        m = from_source(Memory(g.bytes(), "/m.gguf"))
        d = deploy(m, Wishes(ctx=65536), Found())
        planner = d.planner(m)
        text = " ".join(warnings(planner, planner.plan(d.settings, d.placement)))
        assert "stops at the trained" in text
        assert ("YaRN raises it" in text) is raised
        assert ("cannot be made longer" in text) is not raised


def test_ranking_without_a_head_and_embedding_with_one() -> None:
    assert "no ranking head is in the file" in " ".join(planned(bert(), Wishes(rerank=True)).notes)
    assert "it ranks documents: --rerank" in " ".join(planned(bert_reranker(), Wishes(embeddings=True)).notes)
    sound = " ".join((*planned(bert()).notes, *planned(bert_reranker()).notes))
    assert "no ranking head" not in sound
    assert "were never trained" not in sound
