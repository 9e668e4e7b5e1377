"""What the lines of llama.cpp's logs look like, as a table (b11434, and older wordings where they differ)."""

from __future__ import annotations

import re

from gguftool.regex import regex

PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, regex(pattern))
    for name, pattern in (
        ("hparam", r"(?:(?<!\w)print_info|llm_load_print_meta): (?P<name>[\w .]+?)\s+= (?P<value>.*?)\s*$"),
        (
            "context",
            r"(?:llama_context|llama_new_context_with_model|llama_init_from_model): (?P<name>n_\w+|\w+_\w+)\s+= "
            r"(?P<value>\S+)",
        ),
        (
            "cache",
            r"llama_kv_cache(?:_unified)?(?:_iswa)?: size =\s+(?P<mib>[\d.]+) MiB \(\s*(?P<cells>\d+) cells,"
            r"\s+(?P<layers>\d+) layers,\s+(?P<seqs>\d+)(?:/\s*(?P<streams>\d+))? seqs\), K \((?P<type_k>\w+)\):\s+"
            r"(?P<k>[\d.]+) MiB, V \((?P<type_v>\w+)\):\s+(?P<v>[\d.]+) MiB",
        ),
        (
            "self_size",
            r"KV self size\s+=\s+(?P<mib>[\d.]+) MiB, K \((?P<type_k>\w+)\):\s+(?P<k>[\d.]+) MiB, "
            r"V \((?P<type_v>\w+)\):\s+(?P<v>[\d.]+) MiB",
        ),
        ("state", r"llama_memory_recurrent: size =\s+(?P<mib>[\d.]+) MiB"),
        ("dsv4_state", r"llama_kv_cache_dsv4\w*: .*state.* =\s+(?P<mib>[\d.]+) MiB"),
        (
            "buffer",
            r"(?P<projector>\w+_compute_meta)?: +(?P<device>\S+) +(?P<kind>model|KV|RS|compute|output) +buffer size = +"
            r"(?P<mib>[\d.]+) MiB",
        ),
        ("weights_old", r"llm_load_tensors: +(?P<device>\S+) +buffer size = +(?P<mib>[\d.]+) MiB"),
        ("drafting", r"(?:loading draft model '(?P<path>[^']*)'|creating MTP draft context)"),
        ("speculating", r"adding speculative implementation '(?P<kind>[\w-]+)'"),
        ("nothing_drafts", r"failed to initialize speculative decoding context"),
        ("accepted", r"draft acceptance = [\d.]+ \(\s*(?P<accepted>\d+) accepted /\s*(?P<drafted>\d+) generated\)"),
        ("constructing", r"llama_context: constructing llama_context"),
        (
            "meta",
            r"loaded meta data with (?P<keys>\d+) key-value pairs and (?P<tensors>\d+) tensors from (?P<path>.*) "
            r"\(version",
        ),
        ("flash", r"(?:Flash Attention (?P<on>enabled)|Flash Attention not supported, set to (?P<off>disabled))"),
        ("flash_old", r"Flash Attention was auto, set to (?P<on>enabled|disabled)"),
        ("offloaded", r"offloaded (?P<n>\d+)/(?P<of>\d+) layers to GPU"),
        ("device", r"using device (?P<name>\S+) \(.*\) - (?P<mib>\d+) MiB free"),
        ("config", r"using config file: (?P<path>.*)"),
        ("verbosity", r"verbosity = (?P<level>\d+) \(adjust"),
        ("build", r"(?:common_params_print_info: |build_info: |^)(?P<text>build:? .*|b\d+-\w+)"),
        ("loading", r"load_model: loading model '(?P<path>[^']*)'"),
        (
            "slots",
            r"initializing, n_slots = (?P<n>\d+), n_ctx_slot = (?P<ctx>\d+)(?:, kv_unified = '(?P<unified>\w+)')?",
        ),
        ("slots_old", r"initializing slots, n_slots = (?P<n>\d+)"),
        ("slot", r"new slot,? n_ctx(?:_slot)? = (?P<ctx>\d+)"),
        ("loaded", r"(?:llama_server|main|server|init): model loaded|llama runner started in"),
        (
            "listening",
            r"(?:listening on |listening at |Uvicorn running on |connect to custom endpoint at )(?P<url>http\S+)",
        ),
        ("fit", r"common_fit_params: (?P<what>successfully fit.*|failed to fit.*|encountered an error while.*)"),
    )
)
"""Name of a handler in `gguftool.run.log`, and the line it is for; the first that fits takes it."""

_NUMBERS = regex(r"[\d\s.:/-]+")
MAX_SHAPES = 10_000


class Dull:
    """Remembers lines in which nothing was found, by their shape without numbers.

    A server that ran for a day has logged millions of lines of a dozen shapes; each shape is looked at once.
    """

    def __init__(self) -> None:
        self._shapes: set[str] = set()

    def shape(self, text: str) -> str | None:
        """The shape of a line, None when such a line is known to say nothing."""
        shape = _NUMBERS.sub("#", text)
        return None if shape in self._shapes else shape

    def add(self, shape: str) -> None:
        """Such lines say nothing."""
        if len(self._shapes) < MAX_SHAPES:
            self._shapes.add(shape)
