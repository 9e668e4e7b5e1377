"""Files of the ggml family that are no GGUF: the formats of 2022 and 2023, and what some programs write today.

They begin with four letters, most of them back to front because a number was written. Sources: `model_adapter.cpp` of
LostRuins/koboldcpp 2da346a5 (how the old ones are told apart), `convert_llama_ggml_to_gguf.py` and `llama.h` (b11434),
`whisper.cpp`, `parakeet.cpp` and `models/` of ggml-org/whisper.cpp 233fe1fc, `rwkv_file_format.inc` of RWKV/rwkv.cpp,
`convert.py` of foldl/chatllm.cpp, `ggml.h` of PowerInfer, public notes on ggllm.cpp for GGCC.
"""

from __future__ import annotations

from collections.abc import Callable

Found = tuple[str, str, str | None, dict[str, object]]
"""Kind, what it is, what helps, facts."""

_NEWER = "fetch a GGUF of the same model, or convert the original again; koboldcpp still runs the file as it is"
_LLAMA = (
    "fetch a GGUF of the same model, or convert the original again; llama.cpp's convert_llama_ggml_to_gguf.py turns "
    "this file into GGUF, and koboldcpp runs it as it is"
)


def old_ggml(head: bytes) -> Found | None:
    """What a file is that begins as one of the ggml family; None for any other.

    Args:
        head: the first bytes of the file, 64 or more where it has them.
    """
    look = _BY_MAGIC.get(head[:4])
    return look(head) if look is not None else None


def _number(head: bytes, index: int) -> int:
    """The 32-bit number at that place behind the magic."""
    return int.from_bytes(head[4 + 4 * index : 8 + 4 * index], "little", signed=True)


def _ggml(head: bytes) -> Found:
    first, second = _number(head, 0), _number(head, 1)
    if first in range(51_864, 51_867) and second == 1500:
        facts: dict[str, object] = {"vocabulary": first, "layers": _number(head, 4)}
        return "whisper", "a model of whisper.cpp in its own format", "for whisper-cli, not for llama.cpp", facts
    if head[8:14] == b"silero":
        what = "a voice detection model of whisper.cpp in its own format"
        return "whisper", what, "for whisper-cli --vad-model, not for llama.cpp", {}
    if _number(head, 5) in (64, 80, 128) and _number(head, 7) in (400, 512) and _number(head, 6) in range(16):
        what = "a Parakeet model of whisper.cpp in its own format"
        return "whisper", what, "for parakeet-cli of whisper.cpp, not for llama.cpp", {}
    if 31_998 <= first <= 33_000:
        return "ggml", "an old GGML file (LLaMA, early 2023, before GGUF)", _LLAMA, {"vocabulary": first}
    kin = next((name for name, sizes in _VOCABULARIES.items() if first in sizes), "")
    named = f"{kin}, " if kin else ""
    return "ggml", f"an old GGML file ({named}2023, before GGUF)", _NEWER, {"vocabulary": first}


_VOCABULARIES = {"MPT": (4096, 7168), "GPT-J": (50_400,), "GPT-2 or StarCoder": (50_257, *range(49_152, 49_158))}
"""Family -> first number of the file: its vocabulary, of MPT its width. Others are of the GPT-NeoX family."""


def _ggmf(head: bytes) -> Found:
    version = _number(head, 0)
    if version in (100, 101):
        what = f"a model of rwkv.cpp in its own format, version {version}"
        return "rwkv", what, "for rwkv.cpp (github.com/RWKV/rwkv.cpp); koboldcpp runs it, too", {"version": version}
    return "ggml", f"an old GGMF file, version {version} (spring 2023, before GGUF)", _LLAMA, {"version": version}


def _ggjt(head: bytes) -> Found:
    version = _number(head, 0)
    # The converter takes quantised files of version 3 alone (`convert_llama_ggml_to_gguf.py:validate_conversion`).
    hint = _LLAMA if version == 3 else _NEWER
    return "ggml", f"an old GGJT file, version {version} (2023, before GGUF)", hint, {"version": version}


def _ggla(head: bytes) -> Found:
    hint = "make it again from the original adapter: convert_lora_to_gguf.py of llama.cpp"
    what = f"an old GGLA LoRA adapter, version {_number(head, 0)} (before August 2024)"
    return "ggla", what, hint, {"version": _number(head, 0), "rank": _number(head, 1), "alpha": _number(head, 2)}


def _ggcc(head: bytes) -> Found:
    return (
        "ggml",
        "an old GGCC file of ggllm.cpp (Falcon, 2023)",
        "fetch a GGUF of the same model, or convert it again",
        {},
    )


def _state(head: bytes) -> Found:
    hint = "it holds a conversation, not a model: give it to llama.cpp with --prompt-cache or to a slot of llama-server"
    return "state", f"a saved state of llama.cpp, version {_number(head, 0)}", hint, {"version": _number(head, 0)}


def _chatllm(head: bytes) -> Found:
    return "chatllm", "a model of chatllm.cpp in its own format", "for chatllm.cpp (github.com/foldl/chatllm.cpp)", {}


def _powerinfer(head: bytes) -> Found:
    what = "a model of PowerInfer: GGUF with letters of its own at the front"
    return "powerinfer", what, "for PowerInfer (github.com/SJTU-IPADS/PowerInfer)", {"version": _number(head, 0)}


def _llama2c(head: bytes) -> Found:
    return "llama2.c", "a checkpoint of llama2.c", "llama.cpp's llama-convert-llama2c-to-ggml turns it into GGUF", {}


_BY_MAGIC: dict[bytes, Callable[[bytes], Found]] = {
    b"lmgg": _ggml,
    b"fmgg": _ggmf,
    b"tjgg": _ggjt,
    b"algg": _ggla,
    b"ccgg": _ggcc,
    b"nsgg": _state,
    b"qsgg": _state,
    b"ggml": _chatllm,
    b"ggmm": _chatllm,
    b"24ka": _llama2c,
    b"PWRI": _powerinfer,
}
