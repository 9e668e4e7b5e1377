"""Each command of a text: translated, checked, answered, or kept for the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath, PureWindowsPath

from gguftool.records import replace
from gguftool.run import tools
from gguftool.run.capabilities import Capabilities
from gguftool.run.flags import normal, notes, substitutes
from gguftool.run.translation import elsewhere, options, programs, server
from gguftool.run.translation.result import Answer, Kept, Part, Script, Translation, Work
from gguftool.run.translation.starts import Start, others, start
from gguftool.run.translation.words import POSIX, Command, Read
from gguftool.shell import Expands, shell, windows

Find = Callable[[str], str | None]
TALK = ("llama-cli", "llama-completion", "llama-mtmd-cli")
"""Programs at a terminal; where they are not installed, llama-server does the same for a client."""
SERVES = {
    "llama_cpp.server": "llama.cpp's own server does the same",
    "llama-run": "it is no program of llama.cpp any more; llama-server does the same",
    "koboldcpp": "llama-server does the same", "koboldcpp.py": "llama-server does the same",
    "llamafile": "llama-server does the same",
}  # fmt: skip
"""Other programs that serve a GGUF, whose options have a counterpart."""
_SET = ("LLAMA_KV_CACHE", "LLAMA_CUBLAS", "LLAMA_CUDA", "LLAMA_METAL", "GGML_CUDA", "GGML_METAL", "LLAMA_BLAS")
"""Set before a command they do nothing: at most they are, or were, options of the build."""


def judge(read: Read, build: Capabilities, find: Find) -> Script:
    """What becomes of each command.

    Args:
        read: the text.
        build: what the llama-server at hand takes.
        find: path of a program by name, None when it is not installed.

    Raises:
        UsageError: one of them cannot be a command.
    """
    parts: list[Part] = []
    for pipe in _pipes(read.commands):
        parts.append(replace(_pipe(pipe, read, build, find), then=pipe[-1].then))
    return Script(tuple(parts), tuple(read.notes))


def _pipes(commands: Sequence[Command]) -> list[list[Command]]:
    out: list[list[Command]] = []
    joined = False
    for command in commands:
        out[-1].append(command) if joined else out.append([command])
        joined = command.then in ("|", "|&")
    return out


def _pipe(pipe: list[Command], read: Read, build: Capabilities, find: Find) -> Part:
    starts = [start(c.words) for c in pipe]
    at = next((i for i, s in enumerate(starts) if _ours(s)), None)
    if at is None:
        return _other(pipe, starts, read)
    before = "".join(f"{_source(c, read.dialect)} {c.then} " for c in pipe[:at])
    sends = "".join(x if x.startswith("\n") else f" {x}" for x in pipe[at].sends)
    behind = "".join(f" {p.then} {_source(c, read.dialect)}" for p, c in zip(pipe[at:], pipe[at + 1 :], strict=False))
    made = _translated(starts[at], build, find, read.dialect)
    return replace(made, before=before, after=sends + behind)


def _ours(s: Start) -> bool:
    if not s.name:
        return bool(s.words)
    return (
        (s.name in tools.programs() and not s.name.endswith(".py"))
        or s.name in SERVES
        or s.name in programs.OWN
        or _gguf_of_vllm(s)
    )


def _gguf_of_vllm(s: Start) -> bool:
    return s.name == "vllm" and s.words[:1] == ["serve"] and any(w.lower().endswith(".gguf") for w in s.words[1:2])


def _source(c: Command, dialect: str) -> str:
    words = shell(c.words) if dialect == POSIX else windows(c.words)
    return words + "".join(x if x.startswith("\n") else f" {x}" for x in c.sends)


def _other(pipe: list[Command], starts: list[Start], read: Read) -> Part:
    for i, s in enumerate(starts):
        found = elsewhere.answer(s, [c.words for c in pipe[i + 1 :]])
        if found is not None:
            return found
    kept = others()["kept"].split()
    if all((not s.name and not s.words) or s.name in kept or s.name.startswith("$env:") for s in starts):
        line = " ".join(_source(c, read.dialect) + (f" {c.then}" if c.then in ("|", "|&") else "") for c in pipe)
        return Kept(line)
    way = (
        "llama.cpp's programs are translated, and others that serve a GGUF; `gguftool --help` lists what gguftool does"
    )
    name = starts[0].name or "it"
    return Answer(name, _source(pipe[0], POSIX), (), "nothing is known of it here", way, lost=True)


def _translated(s: Start, build: Capabilities, find: Find, dialect: str) -> Translation:
    w = Work(build, s.words, s.name)
    given = " ".join(map(str, s.given))
    if s.name == "":
        w.change("", tools.SERVER, "the program was missing")
        w.program = tools.SERVER
    elif s.name in SERVES or s.name == "vllm":
        w.program = tools.SERVER
        w.change(
            given, tools.SERVER, SERVES.get(s.name, "it serves a GGUF only as a trial; llama-server is made for it")
        )
        _positional(w, s)
    elif len(s.given) == 2 and tools.of_app(s.given[1]) == s.name:
        w.change(given, s.name, "the program of its own does the same")
    elif given and s.name not in (start_name := _last(given)):
        w.change(
            given,
            s.name,
            "renamed in 2024: the programs carry the prefix llama-"
            if start_name in notes()["programs"]
            else f"it is {s.name}",
        )
    if w.program in TALK and not s.image and (dialect != POSIX or find(w.program) is None):
        w.change(w.program, tools.SERVER, "it is the program at hand; it takes the same options for model and context")
        w.program = tools.SERVER
    if w.program == tools.SERVER:
        options.every(w)
        server.finish(w)
    else:
        w.build = tools.programs()[w.program]
        programs.check(w)
    environment = _environment(w, s.environment)
    head = () if s.image else _program(s, w.program, find, dialect)
    if s.image:
        w.notes.append("its options are those of the build in the image, which may be another than the one at hand")
        if any("ggerganov/" in word for word in s.prefix):
            w.notes.append("images of today lie at ghcr.io/ggml-org/llama.cpp")
        return Translation(tuple(environment), (*s.prefix, *w.args), tuple(w.changes), tuple(w.notes), dialect=dialect)
    return Translation(
        tuple(environment), (*head, *w.args), tuple(w.changes), tuple(w.notes), tuple(s.prefix), dialect=dialect,
        program=w.program, args=tuple(w.args),
    )  # fmt: skip


def _last(given: str) -> str:
    return given.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")


def _positional(w: Work, s: Start) -> None:
    """Words without an option that such a program takes for its model; what follows one is a prompt."""
    if s.name == "vllm":
        w.words.pop(0)
    out: list[str] = []
    takes = False
    alone: list[str] = []
    many = False
    for word in w.words:
        if word.startswith("-"):
            many = (found := substitutes().get(normal(word))) is not None and found.many
            takes = _takes(word, w.build)
        elif many and not word.lower().endswith(".gguf"):
            takes = False
        elif not takes:
            alone.append(word)
            continue
        else:
            takes = False
        out.append(word)
    w.words[:] = out
    if not alone:
        return
    if s.name not in ("llama_cpp.server",) and not {"-m", "--model"} & set(out):
        w.words[:0] = _model(alone.pop(0))
    for word in alone:
        w.change(word, "", "a prompt goes to a server over HTTP", lost=True)


def _takes(word: str, build: Capabilities) -> bool:
    spelled = normal(word)
    if "=" in word:
        return False
    if (found := substitutes().get(spelled)) is not None and not build.takes(spelled):
        return found.takes
    option = build.by_name.get(spelled)
    return option is None or bool(option.value)


def _model(word: str) -> list[str]:
    scheme, sign, rest = word.partition("://")
    if sign and scheme in ("hf", "huggingface"):
        return ["-hf", rest]
    if sign and scheme in ("http", "https"):
        return ["-mu", word]
    return ["-m", rest if sign and scheme == "file" else word]


def _environment(w: Work, given: list[str]) -> list[str]:
    out = []
    for setting in given:
        name, _, value = setting.partition("=")
        if name in _SET:
            w.change(
                setting,
                "",
                "llama.cpp reads no such variable: cache types come from -ctk and -ctv, GPUs from the build",
            )
            continue
        option = next(
            (o for o in w.build.options if o.env and name in (o.env, o.env.replace("LLAMA_ARG_", "LLAMA_ARG_NO_"))),
            None,
        )
        if name.startswith("LLAMA_ARG_") and option is None:
            w.change(setting, "", f"{w.program} reads no such variable", lost=True)
            continue
        if option is not None and option.value and not isinstance(setting, Expands):
            why, meant = tools.refused(option.names[0], value)
            if why:
                w.change(setting, f"{name}={meant}" if meant else "", why, lost=not meant)
                if meant:
                    out.append(f"{name}={meant}")
                continue
        out.append(setting)
    return out


def _program(s: Start, name: str, find: Find, dialect: str) -> tuple[str, ...]:
    """The program installed here; for Windows, or where a shell says where it lies, the one beside the given one."""
    first = s.given[0] if s.given else ""
    if isinstance(first, Expands):
        inner = str(first)
        cut = inner.rfind("/") + 1
        quoted = '"' if inner.endswith('"') else ""
        return (Expands(inner[:cut] + name + quoted) if cut else Expands(inner),)
    if dialect != POSIX:
        given = PureWindowsPath(first)
        end = ".exe" if given.suffix.lower() == ".exe" or not first else ""
        return (str(first[: len(first) - len(given.name)]) + name + end,)
    found = find(name)
    if found:
        return (found,)
    folder = str(PurePosixPath(first).parent) if "/" in first and PurePosixPath(first).name == name else ""
    return (first if folder else name,)
