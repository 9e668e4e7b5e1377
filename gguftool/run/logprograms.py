"""Which program wrote a log, and the line that proves that it did its work (b11434 and older wordings)."""

from __future__ import annotations

import re

from gguftool.programs import RPC_SERVER, SERVER
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.run.lines import Line


@dataclass(frozen=True, slots=True)
class Known:
    """A program of llama.cpp.

    Attributes:
        name: of the program.
        marks: what only it prints.
        done: the line that proves its end (for a server: that it serves). With a group ``n`` it proves it only when
            the number is the one that ``of`` announced.
        of: announces how many there will be.
    """

    name: str
    marks: re.Pattern[str]
    done: re.Pattern[str]
    of: re.Pattern[str] | None = None


def _known(name: str, marks: str, done: str, of: str = "") -> Known:
    return Known(name, regex(marks), regex(done), regex(of) if of else None)


_TIMES = r"(?:common_perf_print|llama_perf_context_print|llama_print_timings): +total time ="
PROGRAMS: tuple[Known, ...] = (
    _known("llama-cli", r"^Loading model\.\.\. |llama_server exited with code",
           rf"\[ Prompt: [\d.,]+ t/s \| Generation: |{_TIMES}"),
    _known(SERVER, r"llama_server:|\bsrv  |server_context|HTTP server|\bupdate_slots: |llama server listening",
           r"\bmodel loaded\b|listening (?:on|at) http"),
    _known("llama-quantize", r"main: quantiz|llama_quantize:|llama_model_quantize|ggml_quantize_chunk",
           r"(?:main|llama_quantize): +(?:quantize|total) time ="),
    _known("llama-gguf-split", r"gguf_split:|gguf_merge:|^n_split: \d",
           r"gguf split written with a total of|merged from \d+ split"),
    _known("llama-imatrix",
           r"compute_imatrix|(?:save|combine)_imatrix|imatrix tool requires|saving (?:combined )?imatrix",
           r"Final estimate: PPL|stored collected data after|saving combined imatrix to"),
    _known("llama-perplexity", r"(?<!\w)perplexity(?:_v2)?:|kl_divergence:|(?:hellaswag|winogrande|choice)_score",
           r"Final estimate: PPL|Same top p:|Final Winogrande score|Final result:|^(?P<n>\d+)\t[\d.]+%",
           r"selecting (?:the first )?(?P<of>\d+) "),
    _known("llama-bench", r'llama[-_]bench: |^\| model +\| +size|^\s*"build_commit":|^build_commit,|llama_bench ?\(',
           r'^build: \w+ \(\d+\)|^\]$|^"[^"]*","\d+",|^\{"build_commit"|^INSERT INTO'),
    _known("llama-fit-params", r"llama_fit_params:", r"^-c \d+ -ngl|printing (?:fitted|estimated) .* to stdout"),
    _known("llama-batched-bench", r"llama_batched_bench|^\| +PP \| +TG",
           r'^\|\s*\d+ \|\s*\d+ \||^\{"n_kv_max"'),
    _known("llama-completion", r"llama_completion:", _TIMES),
    _known("llama-tokenize", r"^ *\d+ -> '|^Total number of tokens: |^\[\d+(?:, \d+)*\]$",
           r"^ *\d+ -> '|^Total number of tokens: |^\[\d+(?:, \d+)*\]$"),
    _known("llama-embedding", r"^embedding +\d+: |\bbatch_decode: n_tokens|^rerank score",
           r'^embedding +\d+: |^ *"embedding": ?\[|^rerank score|^cosine similarity'),
    _known("llama-mtmd-cli",
           r"experimental CLI for (?:testing )?multimodal|mtmd_cli|(?:image|audio)(?: slice)? encoded in",
           rf"(?:image|audio) decoded |{_TIMES}"),
    _known("llama-tts", r"generated \d+ frames|step_gen failed|mmproj does not support audio generation",
           r"^wrote \S|audio written to"),
    _known("llama-export-lora", r"^file_input: |run_merge :", r"done, output file is "),
    _known("llama-cvector-generator", r"^n_total_tokens: |^Evaluating prompt\[|ctx_output|run_pca", r"wrote file '"),
    _known("llama-gguf-hash", r"^(?:xxh64|sha1|sha256|uuid) +[0-9a-f-]{16,} +\S|^Verification results for",
           r"^(?:xxh64|sha1|sha256|uuid) +[0-9a-f-]{16,} +\S"),
    _known(RPC_SERVER, r"Starting RPC server|(?:backend|start)_rpc_s(?:tart_s)?erver|Never expose the RPC server",
           r"^ +(?:transport|backend memory) +: |Accepted client connection"),
    _known("convert_hf_to_gguf.py",
           r"(?:INFO|WARNING|ERROR):(?:hf-to-gguf|gguf\.gguf_writer|lora-to-gguf)|convert_\w+_to_gguf\w*\.py",
           r"successfully exported to"),
)  # fmt: skip
"""In the order in which they are asked: what a program prints that another starts, before the other."""
LATE = regex(r"llama_perf_context_print|llama_print_timings|common_perf_print|sampler chain|interactive mode")
"""What several programs print; where nothing else tells, it was the one that writes answers."""
_ANY = regex("|".join(f"(?:{re.sub(r'[(][?]P<[^>]*>', '(?:', x.marks.pattern)})" for x in PROGRAMS))


@dataclass(slots=True)
class Told:
    """Which program it is, line by line, and where it proved its end."""

    known: Known | None = None
    late: bool = False
    end: int | None = None
    of: str = ""

    @property
    def program(self) -> str:
        """The name, "" when no line tells."""
        if self.known is not None:
            return self.known.name
        return "llama-cli" if self.late else ""

    def take(self, line: Line) -> None:
        """Look at a line."""
        known = self.known
        if known is None:
            if _ANY.search(line.text):
                known = self.known = next(x for x in PROGRAMS if x.marks.search(line.text))
            else:
                if LATE.search(line.text):
                    self.late = True
                    if "total time" in line.text:
                        self.end = line.number
                return
        if known.name == SERVER and "llama_server exited with code" in line.text:
            known = self.known = PROGRAMS[0]
        if known.of is not None and (match := known.of.search(line.text)):
            self.of = match.groupdict().get("of") or ""
        if match := known.done.search(line.text):
            n = match.groupdict().get("n")
            if n is None or n == self.of:
                self.end = line.number
