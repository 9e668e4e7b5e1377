"""A template as llama.cpp's engine has it, and what it finds out about it (`common/jinja/caps.cpp`, b11434)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

import jinja2
from jinja2 import nodes

from gguftool.chat.engine.values import EngineError, Refused
from gguftool.chat.engine.walk import Walk
from gguftool.chat.meter import LimitReached, Meter
from gguftool.chat.sandbox import Rendered, Template
from gguftool.records import dataclass
from gguftool.regex import regex

CHARS_A_SECOND = 20_000
"""Characters of a conversation that have a second of the processor; real templates take a hundredth of it."""
TRIALS = 1.5
"""Seconds of the processor for all that is tried out to learn what a template can do."""


class Work(Meter):
    """Limits of one rendering, wider where the conversation itself is long.

    Attributes:
        STEPS: nodes walked; the hungriest of 71 real templates takes 50,000 for a conversation with tools.
    """

    STEPS = 500_000

    def __init__(self, given: int = 0, seconds: float | None = None) -> None:
        self.SECONDS = max(Meter.SECONDS, given / CHARS_A_SECOND)
        super().__init__(seconds)
        self.STEPS = max(type(self).STEPS, 100 * given)
        self.CHARS = max(Meter.CHARS, 60 * given)
        self.TEXT = max(Meter.TEXT, 8 * given)


_FIRST = regex(r"\A(?!\{[%{#])[\s\S][ \t\v\f\r]*(?=\{[%#])")
_ESCAPE = regex(r"""(?:\A|[^\\])(?:\\\\)*\\[^ntrbfv\\'"]""", re.S)
_UNKNOWN = (
    nodes.With,
    nodes.Block,
    nodes.Extends,
    nodes.Include,
    nodes.Import,
    nodes.FromImport,
    nodes.ScopedEvalContextModifier,
    nodes.ExprStmt,
    nodes.FloorDiv,
    nodes.Pow,
)


class Program:
    """A parsed template.

    Attributes:
        source: the text.
        left: seconds of the processor that are left to all renderings together.

    Raises:
        jinja2.TemplateSyntaxError: it does not parse, or uses what llama.cpp's parser does not know.
        LimitReached: too long or too deep to be looked at.
    """

    def __init__(self, source: str) -> None:
        plain = source.replace("\r\n", "\n").replace("\r", "\n")
        self.source = plain.removesuffix("\n")
        self.left = math.inf
        self._left = TRIALS
        # One character that is followed by nothing but blanks up to a tag is lost with them (`lexer.cpp`).
        template = Template(_FIRST.sub("", plain))
        self.tree = template.tree
        for line, text in template.strings():
            if bad := _ESCAPE.search(text):
                raise jinja2.TemplateSyntaxError(f"llama.cpp does not know the escape {bad[0][-2:]}", line)
        for node in self.tree.find_all((*_UNKNOWN, nodes.Tuple)):
            if isinstance(node, nodes.Tuple) and (node.ctx != "load" or len(node.items) > 1):
                continue
            raise jinja2.TemplateSyntaxError(f"llama.cpp does not know {type(node).__name__.lower()}", node.lineno)

    def render(self, variables: Mapping[str, Any], now: datetime, given: int = 0, *, trial: bool = False) -> Rendered:
        """Render with these variables (JSON's types); whatever the template does comes back as a `Rendered`.

        Args:
            variables: as llama-server hands them over.
            now: what ``strftime_now`` says.
            given: length of the conversation in characters, for the limits.
            trial: nobody's conversation: all of these share the time of `TRIALS`.
        """
        if trial:
            return self.tried(variables, now)[0]
        work = Work(given, max(self.left, 0.0))
        out = _outcome(Walk(work, now), self.tree, variables)
        self.left -= work.spent
        return out

    def tried(self, variables: Mapping[str, Any], now: datetime, *, watch: bool = False) -> tuple[Rendered, Walk]:
        """What a conversation becomes that is rendered to learn about the template, and the walk through it."""
        work = Work(seconds=max(self._left, 0.0))
        walk = Walk(work, now, watch=watch)
        out = _outcome(walk, self.tree, variables)
        self._left -= work.spent
        return out, walk

    @cached_property
    def caps(self) -> Caps:
        """What the template can do."""
        return _caps(self)


def _outcome(walk: Walk, tree: nodes.Template, variables: Mapping[str, Any]) -> Rendered:
    try:
        return Rendered(walk.run(tree, variables))
    except Refused as e:
        return Rendered("", str(e), "raised")
    except LimitReached as e:
        return Rendered("", str(e), "limit")
    except (RecursionError, MemoryError, OverflowError) as e:
        return Rendered("", f"{type(e).__name__}: {e}", "limit")
    except EngineError as e:
        return Rendered("", str(e), "error")
    except UnicodeEncodeError:  # a lone surrogate, which no JSON that llama-server reads can hold
        return Rendered("", "a text that is no Unicode", "error")


@dataclass(frozen=True, slots=True)
class Caps:
    """What the template takes, as llama.cpp finds by trying.

    Attributes:
        tools: declared tools are read.
        tool_calls: calls in messages are read.
        system_role: the content of a system message is read.
        parallel_tool_calls: the second call of a message is read.
        preserve_reasoning: thoughts of earlier turns can stay.
        reasoning_effort: the level is read.
        string_content: content may be a text.
        typed_content: content may be a list of parts.
        object_arguments: arguments of calls are read as objects.
    """

    tools: bool = True
    tool_calls: bool = True
    system_role: bool = True
    parallel_tool_calls: bool = True
    preserve_reasoning: bool = False
    reasoning_effort: bool = False
    string_content: bool = True
    typed_content: bool = False
    object_arguments: bool = False


_TEXT = "STRING_MARKER"
_THOUGHT = "<REASONING_CONTENT_PLACEHOLDER>"


def _says(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def _with_call(arguments: Any, ids: tuple[str, ...] = ("call00001",)) -> list[dict[str, Any]]:
    calls = [{"id": i, "type": "function", "function": {"name": "tool1", "arguments": arguments}} for i in ids]
    return [
        _says("user", "User message"),
        _says("assistant", "", tool_calls=calls),
        _says("tool", "Tool response", tool_call_id="call00001"),
        _says("assistant", "The tool response was 'tool response'"),
        _says("user", "User message"),
    ]


_TOOL = {
    "name": "tool",
    "type": "function",
    "function": {
        "name": "tool1",
        "description": "Tool description",
        "parameters": {
            "type": "object",
            "properties": {"arg": {"type": "string", "description": "Arg description"}},
            "required": ["arg"],
        },
    },
}


class _Trial:
    """One conversation rendered with an eye on what is read."""

    def __init__(
        self,
        program: Program,
        messages: list[dict[str, Any]],
        more: Mapping[str, Any] | None = None,
        *,
        tools: bool = False,
    ) -> None:
        # Through JSON, so that every text is an object of its own: what is read is known by identity.
        self.variables: dict[str, Any] = json.loads(
            json.dumps(
                {
                    "messages": messages,
                    "tools": [_TOOL] if tools else [],
                    "bos_token": "",
                    "eos_token": "",
                    "add_generation_prompt": True,
                    **(more or {}),
                }
            )
        )
        result, self._walk = program.tried(self.variables, datetime.now(), watch=True)
        self.works, self.text = not result.kind, result.text

    def used(self, pick: Callable[[dict[str, Any]], Any]) -> bool:
        return id(pick(self.variables)) in self._walk.used

    def content_ops(self) -> set[str]:
        return self._walk.ops.get(id(self.variables["messages"][0]["content"]), set())


_AS_LIST = frozenset({"selectattr", "array_access"})


def _caps(program: Program) -> Caps:
    plain = _Trial(program, [_says("user", _TEXT)])
    ops = plain.content_ops()
    listed = bool(ops & _AS_LIST)
    typed = listed
    as_text = plain.works and not (listed and _TEXT not in plain.text)
    if "test_is_string" in ops:
        parts = _Trial(program, [_says("user", [])])
        typed = typed or (bool(parts.content_ops() & _AS_LIST) and parts.works)
    system = _Trial(program, [_says("system", "System message"), _says("user", "User message")])
    tools, calls, objects = _tools(program)
    arguments: Any = {"arg": "value"} if objects else '{"arg": "value"}'
    two = _Trial(program, _with_call(arguments, ("call00001", "call00002")), tools=True)
    keep = _Trial(program, _THOUGHTFUL, {"enable_thinking": True, **preserve(True)})
    level = {"enable_thinking": True, **dict.fromkeys(EFFORT, "low")}
    effort = _Trial(program, [_says("user", "User message")], level)
    return Caps(
        tools=tools,
        tool_calls=calls,
        system_role=system.used(lambda v: v["messages"][0]["content"]),
        parallel_tool_calls=two.works and two.used(lambda v: v["messages"][1]["tool_calls"][1]["function"]),
        preserve_reasoning=_THOUGHT in keep.text,
        reasoning_effort=any(effort.used(lambda v, name=name: v[name]) for name in EFFORT),  # type: ignore[misc]
        string_content=as_text,
        typed_content=typed,
        object_arguments=objects,
    )


def _tools(program: Program) -> tuple[bool, bool, bool]:
    """Whether tools, calls, and arguments as objects are read."""
    tools = calls = True
    trial = _Trial(program, _with_call({"arg": "value"}), tools=True)
    if trial.works:
        tools = trial.used(lambda v: v["tools"][0]["function"]["name"])
        calls = trial.used(_calls)
        if calls and trial.used(lambda v: _calls(v)[0]["function"]["arguments"]["arg"]):
            return tools, calls, True
    trial = _Trial(program, _with_call('{"arg": "value"}'), tools=True)
    if not trial.works:
        return False, False, False
    tools = tools and trial.used(lambda v: v["tools"][0]["function"]["name"])
    return tools, calls and trial.used(_calls), False


def _calls(variables: dict[str, Any]) -> Any:
    return variables["messages"][1]["tool_calls"]


def preserve(keep: bool) -> dict[str, bool]:
    """What ``preserve_reasoning`` is called in templates."""
    return {
        "preserve_thinking": keep,
        "clear_thinking": not keep,
        "truncate_history_thinking": not keep,
        "drop_thinking": not keep,
    }


EFFORT = ("reasoning_effort", "reasoning_strength")
"""What the level of reasoning is called in templates."""
_THOUGHTFUL = [
    _says("user", "User message"),
    _says("assistant", "Assistant message", reasoning_content=_THOUGHT),
    _says("user", "User message"),
    _says("assistant", "Assistant message", reasoning_content="Reasoning content"),
    _says("user", "User message"),
]
