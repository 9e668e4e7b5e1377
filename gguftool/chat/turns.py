"""A chat template as turns: what stands around the messages, found out from prompts, and as a template of Ollama.

Ollama renders Go templates. One is made out of what the Jinja template does with plain conversations: the text before
and behind a message of each role. It is given only where it then makes the same prompts of other conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gguftool.brief import short_repr
from gguftool.records import dataclass, replace

Messages = Sequence[Mapping[str, str]]
Render = Callable[[Messages, bool], str | None]
"""The prompt of a conversation, and whether the assistant's turn is begun; None: the template refuses it."""
AHEAD, FIRST, LAST, NOWHERE = "ahead", "first", "last", "nowhere"
_S, _U, _A, _V = "Sysword one.", "Userword two.", "Botword three.", "Nextword four."


def _talk(*said: str) -> list[dict[str, str]]:
    roles = {"s": "system", "u": "user", "a": "assistant"}
    return [{"role": roles[text[0]], "content": text[1:]} for text in said]


CONVERSATIONS: tuple[Messages, ...] = tuple(
    _talk(*said)
    for said in (
        ("uHi",),
        ("sBe brief.", "uHi, what is 2 + 2?"),
        ("uHi", "aHello!\n\nHow are you?", "uGood – thanks."),
        ("sAnswer in\ntwo lines.", "uHi", "aHello!", 'u1 < 2 & "3" {{ x }}'),
        ("sBe brief.", "uHi", "aHello!", "uWho?", "aMe.", "uAh, 你好 é"),
    )
)
"""What a form is held against; no text begins or ends with blanks, which templates may take off."""


@dataclass(frozen=True, slots=True)
class Turns:
    """What stands around messages.

    Attributes:
        head: in front of all, where there is no system message.
        before, behind: of a system message.
        user, assistant: the text before and behind such a message.
        open: what begins the assistant's turn.
        system: where a system message goes: ``ahead``, in the ``first`` or the ``last`` message of the user, or
            ``nowhere``: the template takes none.
    """

    head: str
    before: str
    behind: str
    user: tuple[str, str]
    assistant: tuple[str, str]
    open: str
    system: str

    __repr__ = short_repr

    def prompt(self, messages: Messages) -> str:
        """The prompt of a conversation whose system message, if any, comes first."""
        said = [m for m in messages if m["role"] != "system"]
        system = "\n\n".join(m["content"] for m in messages if m["role"] == "system")
        users = [i for i, m in enumerate(said) if m["role"] == "user"]
        at = {FIRST: users[:1], LAST: users[-1:]}.get(self.system, [])
        out = self.before + system + self.behind if system and self.system == AHEAD else self.head
        for i, m in enumerate(said):
            before, behind = self.user if m["role"] == "user" else self.assistant
            inner = system + self.behind if system and i in at else ""
            out += before + inner + m["content"] + behind
        return out + self.open

    def go(self) -> str:
        """The same for Ollama, whose ``.System`` is all system messages, and ``.Messages`` all messages."""
        user, assistant = (_go(x) for x in self.user), (_go(x) for x in self.assistant)
        told = f"{{{{ $system }}}}{_go(self.behind)}"
        ahead = inner = ""
        if self.system == AHEAD:
            known = f"{_go(self.before)}{{{{ .System }}}}{_go(self.behind)}"
            ahead = f"{{{{ if .System }}}}{known}{{{{ else }}}}{_go(self.head)}{{{{ end }}}}"
        elif self.system == FIRST:
            ahead = "{{ $system := .System }}" + _go(self.head)
            inner = f'{{{{ if $system }}}}{told}{{{{ $system = "" }}}}{{{{ end }}}}'
        elif self.system == LAST:
            ahead = (
                "{{ $system := .System }}{{ $last := -1 }}"
                '{{ range $i, $m := .Messages }}{{ if eq $m.Role "user" }}{{ $last = $i }}{{ end }}{{ end }}'
            ) + _go(self.head)
            inner = f"{{{{ if and $system (eq $i $last) }}}}{told}{{{{ end }}}}"
        else:
            ahead = _go(self.head)
        return (
            f'{ahead}{{{{ range $i, $m := .Messages }}}}{{{{ if eq $m.Role "user" }}}}{next(user)}{inner}'
            f'{{{{ $m.Content }}}}{next(user)}{{{{ else if eq $m.Role "assistant" }}}}{next(assistant)}'
            f"{{{{ $m.Content }}}}{next(assistant)}{{{{ end }}}}{{{{ end }}}}{_go(self.open)}"
        )


def turns(render: Render, eos: str = "") -> Turns | None:
    """The form of a template, None where it has none that makes the same prompts of `CONVERSATIONS`.

    Args:
        render: what the template makes of a conversation.
        eos: the text that some templates put behind a conversation that nothing follows.
    """
    guesses = (x for end in dict.fromkeys(("", eos)) for x in _guesses(render, end))
    return next((x for x in guesses if _same(x, render)), None)


def _same(made: Turns, render: Render) -> bool:
    for messages in CONVERSATIONS:
        if made.system == NOWHERE and messages[0]["role"] == "system":
            continue
        if made.prompt(messages) != render(messages, True):
            return False
    return True


def _guesses(render: Render, eos: str) -> list[Turns]:
    one, closed = render(_talk("u" + _U), True), render(_talk("u" + _U), False)
    two, three = render(_talk("u" + _U, "a" + _A), False), render(_talk("u" + _U, "a" + _A, "u" + _V), True)
    if one is None or closed is None or two is None or three is None:
        return []
    around, end = _cut(one, _U), _cut(closed, _U)
    first, second = _cut(two, _U, _A), _cut(three, _U, _A, _V)
    if not (around and end and first and second):
        return []
    close, finish = end[1].removesuffix(eos), first[2].removesuffix(eos)
    open_ = around[1].removeprefix(close)
    if not (around[1].startswith(close) and second[1].startswith(close) and second[2].startswith(finish)):
        return []
    # Of the message that another one follows: thoughts are kept of the last one alone.
    start, begin = second[2].removeprefix(finish), second[1].removeprefix(close)
    if not around[0].endswith(start):
        return []
    head = around[0].removesuffix(start)
    base = Turns(head, "", "", (start, close), (begin, finish), open_, NOWHERE)
    return [*_with_system(base, render), base]


def _with_system(base: Turns, render: Render) -> list[Turns]:
    text = render(_talk("s" + _S, "u" + _U), True)
    found = _cut(text, _S, _U) if text is not None else None
    if not found:
        return []
    start, out = base.user[0], []
    if found[1].endswith(start):
        behind = found[1].removesuffix(start)
        out.append(replace(base, before=found[0], behind=behind, system=AHEAD))
    out += [replace(base, behind=found[1], system=where) for where in (FIRST, LAST)]
    return out


def _cut(text: str, *words: str) -> list[str] | None:
    """A text around words that stand in it once each, in this order."""
    out = []
    for word in words:
        before, found, text = text.partition(word)
        if not found or word in text:
            return None
        out.append(before)
    return [*out, text]


def _go(text: str) -> str:
    """An action of a Go template that writes a text; "" for none."""
    if not text:
        return ""
    return '{{ "' + "".join(_GO.get(c) or (c if " " <= c <= "~" else _escaped(c)) for c in text) + '" }}'


_GO = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _escaped(c: str) -> str:
    return f"\\u{ord(c):04x}" if ord(c) < 1 << 16 else f"\\U{ord(c):08x}"
