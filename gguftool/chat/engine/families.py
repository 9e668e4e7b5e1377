"""Templates that llama.cpp renders with a hand of its own (`common/chat.cpp`, `common/parsers`, b11434), as a table.

A family is known by what stands in the template. It may rewrite the messages before rendering, and says how an answer
is continued that the client began.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gguftool.reading import Malformed, from_json
from gguftool.records import dataclass

Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Family:
    """One row.

    Attributes:
        name: for messages.
        has: all of these stand in the template.
        lacks: none of these does.
        thinks: whether ``enable_thinking`` is on where the client says nothing.
        rewrite: changes the messages.
        ending: changes the prompt; told whether the assistant's turn is opened.
        begin: what opens the assistant's turn and its thoughts when an answer is continued; None: what the template
            itself opens the turn with. ``between`` follows the thoughts when the answer itself has begun.
        between: see ``begin``.
        no_thoughts: no thoughts are written when an answer is continued.
        only_text: the text of the answer is written even where only its thoughts are asked for.
    """

    name: str
    has: tuple[str, ...]
    lacks: tuple[str, ...] = ()
    thinks: bool = True
    rewrite: Callable[[str, Messages], Messages] | None = None
    ending: Callable[[str, bool], str] | None = None
    begin: str | None = ""
    between: str = ""
    no_thoughts: bool = False
    only_text: bool = False

    def fits(self, source: str) -> bool:
        """Whether a template belongs to the family."""
        return all(word in source for word in self.has) and not any(word in source for word in self.lacks)


def _thinking_field(source: str, messages: Messages) -> Messages:
    """LFM2: thoughts under another name as well."""
    return [{**m, "thinking": m["reasoning_content"]} if "reasoning_content" in m else m for m in messages]


def _harmony(source: str, messages: Messages) -> Messages:
    """GPT-OSS: thoughts under another name; a message that calls tools has no content then."""
    out = []
    for m in _thinking_field(source, messages):
        drop = "reasoning_content" in m and m.get("tool_calls")
        out.append({k: v for k, v in m.items() if not (drop and k == "content")})
    return out


def _in_parts(source: str, messages: Messages) -> Messages:
    """Ministral 3: what the system and the assistant say as parts, thoughts being one of them."""
    out = []
    for m in messages:
        if m["role"] not in ("system", "assistant"):
            out.append(m)
            continue
        parts: list[Any] = []
        if "reasoning_content" in m:
            parts.append({"type": "thinking", "thinking": m["reasoning_content"]})
        if isinstance(m.get("content"), str):
            parts.append({"type": "text", "text": m["content"]})
        elif isinstance(m.get("content"), list):
            parts += m["content"]
        changed = {k: v for k, v in m.items() if k != "reasoning_content"}
        changed["content"] = parts
        out.append(changed)
    return out


def _results_in_order(source: str, messages: Messages) -> Messages:
    """DeepSeek V4: results of tools in the order of the calls."""
    if "function_calls" in source:  # V3.2
        return messages
    out, order, i = list(messages), {}, 0
    while i < len(out):
        role = out[i]["role"]
        if role == "assistant" and out[i].get("tool_calls"):
            order = {c["id"]: n for n, c in enumerate(out[i]["tool_calls"]) if c.get("id")}
        if role not in ("user", "tool"):
            i += 1
            continue
        end = next((j for j in range(i, len(out)) if out[j]["role"] not in ("user", "tool")), len(out))
        places = [j for j in range(i, end) if out[j]["role"] == "tool"]
        if len(places) > 1 and order:
            results = sorted((out[j] for j in places), key=lambda m: order.get(m.get("tool_call_id", ""), 0))
            for place, result in zip(places, results, strict=True):
                out[place] = result
        i = end
    return out


def _one_turn(source: str, messages: Messages) -> Messages:
    """Older templates of Gemma 4: a call, its results and the answer become one message."""
    if "{#- OpenAI Chat Completions:" in source:
        return messages
    out: Messages = []
    i = 0
    while i < len(messages):
        m = messages[i]
        i += 1
        if m["role"] != "assistant" or not m.get("tool_calls"):
            out.append(m)
            continue
        turn: dict[str, Any] = {"role": "assistant", "tool_calls": list(m["tool_calls"])}
        responses: list[dict[str, Any]] = []
        while i < len(messages) and messages[i]["role"] == "tool":
            calls = turn["tool_calls"]
            name = calls[len(responses)]["function"].get("name", "") if len(responses) < len(calls) else ""
            responses.append(
                {"name": name or messages[i].get("tool_call_id", ""), "response": _parsed(messages[i].get("content"))}
            )
            i += 1
        if responses:
            turn["tool_responses"] = responses
        if (
            i < len(messages)
            and messages[i]["role"] == "assistant"
            and not messages[i].get("tool_calls")
            and messages[i].get("content")
        ):
            turn["content"] = messages[i]["content"]
            i += 1
        if "reasoning_content" in m:
            turn["reasoning_content"] = m["reasoning_content"]
        out.append(turn)
    return out


def _parsed(content: Any) -> Any:
    if not isinstance(content, str):
        return content
    try:
        return from_json(content)
    except Malformed:
        return content


def _no_return(prompt: str, opened: bool) -> str:
    """GPT-OSS: the last turn ends as an earlier one does."""
    head, mark, tail = prompt.rpartition("<|return|>")
    return f"{head}<|end|>{tail}" if mark and not opened else prompt


def _open_again(prompt: str, opened: bool) -> str:
    """Gemma 4: a turn behind a call that the template leaves closed."""
    return prompt + "<|turn>model\n" if opened and prompt.endswith("<turn|>\n") else prompt


_HARMONY = {
    "rewrite": _harmony,
    "ending": _no_return,
    "begin": "<|start|>assistant<|channel|>analysis<|message|>",
    "between": "<|end|><|start|>assistant<|channel|>final<|message|>",
}
_DSML = {"rewrite": _results_in_order, "begin": "<｜Assistant｜><think>", "between": "</think>"}
_LFM2 = {"rewrite": _thinking_field, "begin": "<|im_start|>assistant\n<think>", "between": "</think>"}
_CODER = ("<tool_call>", "<function=", "<parameter=")
_TIGHT = "'<tool_call><function=' ~ tool_call.name ~ '>'"

FAMILIES: tuple[Family, ...] = (
    Family(
        "Ministral 3",
        ("[SYSTEM_PROMPT]", "[TOOL_CALLS]", "[ARGS]"),
        ("[CALL_ID]",),
        rewrite=_in_parts,
        begin="[THINK]",
        between="[/THINK]",
    ),
    Family("LLM-jp Harmony", ("chat_format=llm-jp-harmony-v1",), **_HARMONY),  # type: ignore[arg-type]
    Family("GPT-OSS", ("<|channel|>",), **_HARMONY),  # type: ignore[arg-type]
    Family(
        "Muse Glimmer",
        ("<atem:function_calls>", "<|eom|>"),
        begin="<|start|>assistant to=self<|message|>",
        between="<|eom|><|start|>assistant to=user<|message|>",
    ),
    Family(
        "Functionary v3.2",
        (">>>all", ">>>${recipient}"),
        thinks=False,
        begin="<|start_header_id|>assistant<|end_header_id|>\n\n>>>all\n",
        no_thoughts=True,
        only_text=True,
    ),
    Family(
        "Kimi K2",
        ("<|tool_calls_section_begin|>", "<|tool_call_begin|>"),
        begin="<|im_assistant|>assistant<|im_middle|><think>",
        between="</think>",
    ),
    Family(
        "Kimi K3",
        ("<|open|>", "<|close|>", "<|end_of_msg|>"),
        begin='<|open|>message role="assistant"<|sep|><|open|>think<|sep|>',
        between="<|close|>think<|sep|><|open|>response<|sep|>",
    ),
    Family(
        "Ling 3.0",
        ("<role>ASSISTANT</role>", "<arg_key>"),
        begin="<role>ASSISTANT</role>\n<think>",
        between="</think>",
    ),
    Family(
        "Cohere2 MoE",
        ("<|START_TEXT|>", "<|START_ACTION|>"),
        begin="<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|>",
        between="<|END_THINKING|><|START_TEXT|>",
    ),
    Family("LFM2", ("<|tool_list_start|>", "<|tool_list_end|>"), **_LFM2),  # type: ignore[arg-type]
    Family("LFM2.5", ("List of tools: [",), ("<|tool_list_start|>",), **_LFM2),  # type: ignore[arg-type]
    Family(
        "GigaChat V3",
        ("<|role_sep|>", "<|message_sep|>"),
        ("<|function_call|>",),
        thinks=False,
        begin="assistant<|role_sep|>\n",
        no_thoughts=True,
        only_text=True,
    ),
    Family(
        "MiniMax M3",
        ("]<]minimax[>[", "<tool_call>", "<invoke name="),
        begin=None,
        between="</mm:think>",
    ),
    Family("DeepSeek V3.2", ("dsml_token", "DSML", "function_calls"), **_DSML),  # type: ignore[arg-type]
    Family("DeepSeek V4", ("dsml_token", "DSML", "tool_calls"), **_DSML),  # type: ignore[arg-type]
    Family(
        "Gemma 4",
        ("'<|tool_call>call:'",),
        rewrite=_one_turn,
        ending=_open_again,
        begin="<|channel>thought\n",
        between="<channel|>",
    ),
    Family(
        "MiniCPM5",
        ("Tool usage guidelines:", '<function name="', '<param name="'),
        begin="<|im_start|>assistant\n<think>\n",
        between="\n</think>\n\n",
    ),
    Family(
        "Qwen3-Coder",
        (*_CODER, "<think>"),
        (_TIGHT,),
        begin="<|im_start|>assistant\n<think>\n",
        between="\n</think>\n\n",
    ),
    Family("Qwen3-Coder", _CODER, (_TIGHT,), thinks=False, begin="<|im_start|>assistant\n", no_thoughts=True),
)
"""In the order in which llama.cpp asks."""


def family(source: str) -> Family | None:
    """The row of a template; None for the many that are rendered as they are."""
    return next((row for row in FAMILIES if row.fits(source)), None)


def continued(row: Family, prompt: str, opening: str, thoughts: str, answer: str | None) -> str:
    """What follows the prompt when an answer is continued.

    Args:
        row: the family.
        prompt: of the messages before, without an opened turn.
        opening: what the template itself opens a turn with.
        thoughts: of the answer so far.
        answer: its text so far; None when only the thoughts have begun.
    """
    begin, between = row.begin, row.between
    if row.name == "MiniMax M3":
        begin = opening + "<mm:think>"
    elif row.name == "Gemma 4" and prompt.endswith("<turn|>\n"):
        begin = f"<|turn>model\n{begin}"
    elif row.name == "DeepSeek V4" and not thoughts:
        begin, between = "<｜Assistant｜></think>", ""
    written = "" if row.no_thoughts else thoughts
    return (begin or "") + written + ("" if answer is None else between + answer)
