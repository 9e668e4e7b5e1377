"""What a log tells against a plan: what is off although it was asked for, and buffers beyond the estimate."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gguftool.model import open_model
from gguftool.run.buffers import ExpectedCompute
from gguftool.run.diagnose import judge
from gguftool.run.features import features, mark, template
from gguftool.run.proof import Expected, compare
from gguftool.run.wishes import Wishes
from tests.build import GGUF, llama


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("warning: failed to mlock 123-byte buffer (after previously locking 0 bytes): Cannot allocate memory", "W"),
        ("warning: mlock not supported on this system", "W"),
        ("srv    load_model: swa_full is not supported by this model, it will be disabled", "W"),
        ("srv    load_model: ctx_shift is not supported by multimodal, it will be disabled", "W"),
        ("common_init_from_params: failed to load lora adapter", "E"),
    ],
)
def test_what_was_asked_for_and_is_off_takes_the_proof_away(line: str, level: str) -> None:
    """With llama.cpp's letters, as its JSON lines, and as builds without letters wrote it."""
    ready = "main: model loaded"
    words = {"W": "warn", "E": "error"}[level]
    for text in (
        f"0.00.000.001 {level} {line}\n0.00.000.002 I {ready}\n",
        json.dumps({"level": words, "msg": line}) + "\n" + json.dumps({"level": "info", "msg": ready}) + "\n",
        f"{line}\n{ready}\n",
    ):
        j = judge(text)
        assert j.status == "ready", text
        wrong = [c for c in compare(Expected(), j) if c.ok is False]
        assert [c.what for c in wrong] == ["errors"], text
        assert str(wrong[0].observed) in line


def test_compute_buffers_and_those_of_the_context_that_drafts_are_compared() -> None:
    """Logged for gemma-3-270m at 8192 tokens by b7551 where the formula of today says 28.3 MiB: a difference."""
    begin = "llama_context: constructing llama_context"
    text = (
        f"{begin}\nllama_context: n_ctx = 8192\nsched_reserve:        CPU compute buffer size =    10.00 MiB\n"
        "sched_reserve:        CPU compute buffer size =    26.77 MiB\nmain: model loaded\n"
    )
    mib = 1 << 20

    def row(planned: float, said: str, over: float = 0.0) -> tuple[object, bool | None]:
        wanted = (ExpectedCompute("CPU", int(planned * mib)),)
        found = {c.what: c for c in compare(Expected(compute=wanted, compute_over=over), judge(said))}
        check = next(c for what, c in found.items() if what.startswith("compute buffers"))
        return check.observed, check.ok

    assert row(28.3, text) == ("26.77 MiB", True), "the last one counts"
    assert row(28.3, text.replace("26.77", "513.25")) == ("513.25 MiB", False)
    assert row(28.3, "main: model loaded\n") == (None, None)
    # the room above it is the error of the plan's class
    assert row(24.0, text) == ("26.77 MiB", False)
    assert row(24.0, text, over=0.2) == ("26.77 MiB", True)
    assert "compute buffers" not in {c.what for c in compare(Expected(), judge(text))}


def wrong(text: str, expected: Expected | None = None) -> list[tuple[str, str]]:
    j = judge(text)
    assert j.status == "ready"
    return [(c.what, str(c.observed)) for c in compare(expected or Expected(), j) if c.ok is False]


STRANGE = "ggml_backend_foo: something that no table has ever heard of"


@pytest.mark.parametrize(
    "line",
    [
        # Rows that end nothing: at error level before the server is ready they count all the same.
        "srv    load_model: failed to parse UI config: parse error",
        "failed to prepare attention ubatches",
        # What nobody knows.
        STRANGE,
    ],
)
def test_every_error_before_ready_takes_the_proof_away(line: str) -> None:
    ready = "0.00.000.009 I srv  llama_server: model loaded\n"
    assert wrong(f"0.00.000.001 E {line}\n{ready}") == [("errors", line)]
    assert wrong(f"E {line}\nI srv  llama_server: model loaded\n") == [("errors", line)], "--no-log-timestamps"
    assert wrong(f"0.00.000.001 I {line}\n{ready}") == []


@pytest.mark.parametrize(
    "line",
    [
        "ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected",
        "load_backend: failed to load /x/libggml-cuda.so: libcuda.so.1: cannot open shared object file",
        "common_fit_params: failed to fit params to free device memory: n_gpu_layers already set by user to 9, abort",
    ],
)
def test_errors_that_are_known_to_be_harmless_are_shown_and_no_more(line: str) -> None:
    j = judge(f"0.00.000.001 E {line}\n0.00.000.009 I srv  llama_server: model loaded\n")
    assert [d.line for d in j.notices] == [line]
    assert not any(c.ok is False for c in compare(Expected(), j))


def test_an_error_of_a_request_while_it_is_proven() -> None:
    ready = "0.00.000.009 I srv  llama_server: model loaded\n"
    assert wrong(f"{ready}0.00.001.000 E srv  foo: {STRANGE}\n") == [("errors", f"srv  foo: {STRANGE}")]


def test_a_log_without_levels_has_those_of_the_sources() -> None:
    """`download.cpp`: printed with LOG_ERR; no row of the table has its text."""
    ready = "srv  llama_server: model loaded\n"
    line = "read_etag: could not open .etag file for reading: /x/m.gguf.etag"
    assert [what for what, _ in wrong(f"{line}\n{ready}")] == ["errors"]
    # In a log with levels a line without one is no message of llama.cpp's: a prompt, metadata.
    assert wrong(f"0.00.000.001 I srv  llama_server: initializing\n{line}\n0.00.000.002 I {ready}") == []
    # Ollama writes levels of its own before its own lines, and llama.cpp's without.
    slog = 'time=2026-01-01T00:00:00Z level=INFO source=server.go:1 msg="starting runner"\n'
    assert [what for what, _ in wrong(f"{slog}{line}\n{ready}")] == ["errors"]


@pytest.mark.parametrize(
    ("feature", "line"),
    [
        ("gpu-layers", "warning: no usable GPU found, --gpu-layers option will be ignored"),
        ("gpu-layers", "ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected"),
        ("flash-attn", "llama_init_from_model: flash_attn is not compatible with Grok - forcing off"),
        ("flash-attn", "resolve: Flash Attention not supported, set to disabled"),
        ("mmap", "llama_model_loader: mmap is not supported on this platform"),
        ("direct-io", "Failed to open file 'm' with error: Invalid argument. Falling back to buffered I/O"),
        ("--cache-idle-slots", "srv    load_model: --cache-idle-slots requires --cache-ram, disabling"),
        ("--backend-sampling", "set_sampler: backend sampling not supported with SPLIT_MODE_TENSOR; using CPU"),
    ],
)
def test_what_nobody_asked_for_may_be_off(feature: str, line: str) -> None:
    text = f"0.00.000.001 W {line}\n0.00.000.002 I srv  llama_server: model loaded\n"
    assert wrong(text) == []
    assert wrong(text, Expected(features=(feature,))) == [(feature, f"off: {line}")]


def test_what_is_asked_for_is_read_from_the_wishes() -> None:
    assert features(Wishes()) == ()
    assert features(Wishes(gpu_layers=0, device=("none",), flash_attn="auto", load_mode="none")) == ()
    assert features(Wishes(gpu_layers=99, flash_attn="on", load_mode="mmap+mlock")) == (
        "gpu-layers", "flash-attn", "mmap", "mlock",
    )  # fmt: skip
    assert features(Wishes(extra=("--cache-idle-slots", "-bs"))) == ("--cache-idle-slots", "--backend-sampling")
    assert features(Wishes(extra=("--no-cache-idle-slots",))) == ("--no-cache-idle-slots",)


def test_graphs_of_a_projector_and_the_place_of_the_cache_are_compared() -> None:
    text = (
        "llama_context: constructing llama_context\nllama_kv_cache:        CPU KV buffer size =     9.00 MiB\n"
        "reserve_compute_meta:        CPU compute buffer size =     5.00 MiB\n"
        "reserve_compute_meta:        CPU compute buffer size =     3.00 MiB\nmain: model loaded\n"
    )

    def row(what: str, **planned: object) -> tuple[object, bool | None]:
        found = {c.what: c for c in compare(Expected(**planned), judge(text))}  # type: ignore[arg-type]
        return found[what].observed, found[what].ok

    mib = 1 << 20
    assert row("projector: compute buffers", projector_bytes=8 * mib) == ("8.00 MiB", True), "an encoder has one each"
    assert row("projector: compute buffers", projector_bytes=5 * mib) == ("8.00 MiB", False)
    assert row("KV cache on CUDA0", kv_devices=("CUDA0",)) == ("no", False)


def test_the_chat_template_is_that_of_the_file_or_of_the_option(tmp_path: Path) -> None:
    """`chat.cpp:common_chat_templates_init`: the option, else the file's, else that for tools, else ChatML."""
    own, other = "{{ messages[0].content }}", tmp_path / "t.jinja"
    other.write_bytes(b"{{ 'x' }}\r\n{{ 'y' }}\n")

    def wanted(g: GGUF, env: dict[str, str] | None = None, **asked: object) -> str | None:
        with open_model(g.write(tmp_path / "m.gguf")) as m:
            return template(m, Wishes(**asked), env or {})  # type: ignore[arg-type]

    def made(**keys: str) -> GGUF:
        g = llama()
        for name, text in keys.items():
            g.kv(f"tokenizer.chat_template{name}", text)
        return g

    plain = llama().drop("tokenizer.chat_template")
    assert wanted(plain) is None, "ChatML as the build has it"
    assert wanted(made(**{"": own})) == mark(own)
    assert wanted(made(**{".tool_use": own})) == mark(own)
    assert wanted(made(**{"": own}), template=str(other)) == mark("{{ 'x' }}\n{{ 'y' }}")
    assert wanted(made(**{"": own}), extra=("--chat-template", "llama3")) == mark("llama3")
    assert wanted(made(**{"": own}), env={"LLAMA_ARG_CHAT_TEMPLATE_FILE": str(other)}) == mark(other.read_text())
    assert wanted(made(**{"": own}), env={"LLAMA_ARG_CHAT_TEMPLATE": "vicuna"}) == mark("vicuna")
    assert wanted(made(**{"": own}), extra=("--override-kv", "tokenizer.chat_template=str:x")) is None
    assert mark(own) != mark(own + " ")


def test_compute_buffers_are_compared_by_device() -> None:
    """One device over and the other under by as much differs; where the log has other names, the sum is compared."""
    text = (
        "sched_reserve:      CUDA0 compute buffer size =   300.00 MiB\n"
        "sched_reserve:      CUDA1 compute buffer size =   100.00 MiB\n"
        "sched_reserve:  CUDA_Host compute buffer size =    40.02 MiB\nmain: model loaded\n"
    )

    def rows(*planned: tuple[str, int]) -> dict[str, bool | None]:
        wanted = tuple(ExpectedCompute(name, mib << 20) for name, mib in planned)
        found = compare(Expected(compute=wanted, compute_over=0.0), judge(text))
        return {c.what: c.ok for c in found if c.what.startswith("compute")}

    at = "compute buffers on "
    assert rows(("CUDA0", 300), ("CUDA1", 100), ("CPU", 40)) == dict.fromkeys(
        (at + "CUDA0", at + "CUDA1", at + "CPU"), True
    )
    assert rows(("CUDA0", 200), ("CUDA1", 200), ("CPU", 40))[at + "CUDA0"] is False
    assert rows(("CUDA0", 300), ("CUDA1", 100), ("CPU", 20))[at + "CPU"] is False
    assert rows(("Vulkan0", 300), ("Vulkan1", 100), ("CPU", 40)) == {"compute buffers": True}


def test_the_room_above_a_plan_is_the_error_of_its_class() -> None:
    """On the host the estimate was never under; a Vulkan device reorders its graph; measured figures have no error."""
    from gguftool.memory.devices import Device
    from gguftool.memory.plan import Machine, Planner, weights_of
    from gguftool.memory.settings import Settings
    from gguftool.memory.spread import over
    from tests.memory.giants import giant

    m = giant("llama-3.1-8b")
    plan = Planner(m.arch, weights_of(m)).plan(Settings(8192))
    assert over(plan) == 0.0
    vulkan = Planner(m.arch, weights_of(m), Machine((Device("Vulkan0", "vulkan"),))).plan(Settings(8192))
    assert over(vulkan) == pytest.approx(0.493, abs=0.001)
    assert over(replace(vulkan, compute_basis="measured")) == 0.0
    old = Planner(m.arch, weights_of(m), build=9093).plan(Settings(8192))
    assert over(old) == pytest.approx(0.042, abs=0.001)
