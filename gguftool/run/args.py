"""Command lines, from wishes: of llama-server, spelled as the build at hand takes them, and of gguftool itself.

Pure: wishes in, words out. Which option has which spellings stands in the table (`gguftool.run.options`); one that the
build does not list is left out and named in a note, so an old or new build gets a smaller command, never a wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gguftool.brief import short_repr
from gguftool.facts.cachetypes import CACHE_TYPES, DEFAULT, flash_attn_said
from gguftool.records import dataclass, field
from gguftool.run.aged import ONE_IS_ONE, one_needs_unified, slots_opened
from gguftool.run.capabilities import Capabilities, known
from gguftool.run.options.extra import is_secret, silences
from gguftool.run.options.row import Option
from gguftool.run.options.table import by_field, normal, options, shown
from gguftool.run.wishes import Wishes

TRACE = 4
"""Level at which the builds with six levels print sizes (`common/log.cpp`, b11434); the default 3 hides them."""
MODEL = ("-m", "--model")
ALWAYS = ("ctx", "parallel", "host", "port")
"""Said even where they are the default: a configuration file or a variable may say otherwise, and builds differ."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Arguments without the program, and what could not be said to this build.

    Attributes:
        args: ready to put behind the program's name.
        notes: one sentence for each thing that had to be left out or said in another way.
        blockers: wishes without which the server would do something else than planned.
    """

    args: tuple[str, ...]
    notes: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()

    __repr__ = short_repr


@dataclass(slots=True)
class _Draft:
    build: Capabilities
    args: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    blockers: list[str] = field(default_factory=list)

    def say(self, names: Iterable[str], *value: str, must: bool = False) -> bool:
        """Add an option and its value; note it when the build has none of its spellings."""
        given = tuple(names)
        name = self.build.spelling(given)
        if name is None:
            longest = next((n for n in given if n.startswith("--")), given[-1])
            (self.blockers if must else self.notes).append(f"this build has no {' '.join((longest, *value))}")
            return False
        self.args += [name, *value]
        return True


def spellings(what: str) -> tuple[str, ...]:
    """llama.cpp's spellings of an option, by its field of `Wishes`."""
    return by_field()[what].names


def server_command(model: str, w: Wishes, build: Capabilities) -> CommandLine:
    """The arguments of llama-server for these wishes and this build.

    Args:
        model: path of the model, of its first shard; "": none is said.
        w: what is wished; ``ctx`` None: nothing is said about it.
        build: what the program takes.
    """
    d = _Draft(build)
    if model:
        d.say(MODEL, model, must=True)
    for o in options():
        special = _SPECIAL.get(o.field)
        if special is not None:
            special(d, w)
        elif o.names or o.constants:
            _say(d, o, getattr(w, o.field))
    return CommandLine((*d.args, *w.extra), tuple(d.notes), tuple(d.blockers))


def own_words(w: Wishes) -> list[str]:
    """The arguments of ``gguftool launch`` that mean these wishes; an option at its default is not said."""
    out: list[str] = []
    for o in options():
        value = getattr(w, o.field)
        if value == o.default or (value is None and o.default is None):
            continue
        constant = o.constant(value)
        if constant is not None:
            out.append(next((n for n in constant.names if n.startswith("--")), constant.names[0]))
        elif not o.kind.metavar:
            out.append(o.ours)
        else:
            out += [o.ours, shown(o, value)]
    return [*out, *(["--", *w.extra] if w.extra else [])]


def masked(argv: Sequence[str], hide: Callable[[str], str] = lambda name: "***") -> list[str]:
    """A command line without its secrets.

    Args:
        argv: the words.
        hide: what stands for the value of an option, by the variable llama.cpp reads it from ("": none).
    """
    out: list[str] = []
    secret = ""
    for word in argv:
        out.append(hide(_variable(secret)) if secret else _without_login(word) if "@" in word else word)
        secret = "" if secret else word if word not in MODEL and is_secret(word) else ""
    return out


def _without_login(word: str) -> str:
    # All of HTTP comes with it, and few words are addresses.
    from gguftool.wire import without_login

    return without_login(word)


def _variable(name: str) -> str:
    option = known().by_name.get(normal(name))
    return option.env if option else ""


def _say(d: _Draft, o: Option, value: object) -> None:
    if value is None or (value == o.default and o.field not in ALWAYS):
        return
    constant = o.constant(value)
    if constant is not None and (not o.kind.metavar or d.build.spelling(constant.names)):
        d.say(constant.names, must=o.must)
    elif not o.kind.metavar:
        d.say(o.names, must=o.must)
    else:
        text = o.kind.show(value)
        if d.say(o.names, text, must=o.must) and o.kind.values and not o.kind.many:
            name = d.args[-2]
            from gguftool.run.options.behind import listed

            allowed = listed(d.build.by_name[name])
            if allowed and text not in allowed:
                d.blockers.append(f"{name} {text}: this build takes " + ", ".join(allowed))


def _rpc(d: _Draft, w: Wishes) -> None:
    if w.rpc:
        # The memory of a server is for the plan alone.
        d.say(spellings("rpc"), ",".join(r.endpoint for r in w.rpc), must=True)


def _cache_types(d: _Draft, w: Wishes) -> None:
    # f16 is every build's default; said only when both options are there to say it.
    pair = w.cache_type or (DEFAULT, DEFAULT)
    must = pair != (DEFAULT, DEFAULT)
    for names, value in zip(by_field()["cache_type"].sides, pair, strict=True):
        if must or d.build.spelling(names):
            d.say(names, value, must=must)


def _flash_attention(d: _Draft, w: Wishes) -> None:
    name = d.build.spelling(spellings("flash_attn"))
    type_v = (w.cache_type or (DEFAULT, DEFAULT))[1]
    # llama.cpp switches it on for a quantised V by itself, but only since it knows "auto"; saying it is never wrong.
    wanted = flash_attn_said(type_v, w.flash_attn)
    if name is None:
        if wanted != "off":
            quantized = CACHE_TYPES[type_v].quantized
            (d.blockers if quantized else d.notes).append("this build has no --flash-attn")
        return
    if d.build.by_name[name].value:
        d.args += [name, wanted]
    elif wanted == "on":
        d.args.append(name)
    elif wanted == "auto":
        d.notes.append("in this build flash attention is a switch that is off unless given; it was not given")


def _unified(d: _Draft, w: Wishes) -> None:
    o = by_field()["kv_unified"]
    if w.kv_unified is None or (w.parallel == 1 and not w.kv_unified):
        return
    if w.kv_unified:
        d.say(o.names, must=True)
    elif d.build.spelling(o.names):
        # With a number of slots given, separate contexts are the default of every build that has the choice.
        name = d.build.spelling(o.constants[0].names)
        if name:
            d.args.append(name)


def _parallel(d: _Draft, w: Wishes) -> None:
    number = d.build.build
    # Builds whose -np 1 means one slot and none said means another number have no word for the latter.
    count = slots_opened(number) if w.parallel is None and number is not None and number < ONE_IS_ONE else w.parallel
    d.say(spellings("parallel"), "-1" if count is None else str(count))
    if one_needs_unified(number) and w.kv_unified is None and (count == 1 or w.parallel is None):
        d.say(by_field()["kv_unified"].names)


def _fit(d: _Draft, w: Wishes) -> None:
    if w.fit is not None and not d.say(spellings("fit"), w.fit):
        d.notes[-1] += ": it never changes what was asked for"


def _load_mode(d: _Draft, w: Wishes) -> None:
    o, mode = by_field()["load_mode"], w.load_mode
    if mode is None:
        return
    if d.build.spelling(o.names):
        d.say(o.names, mode)
        return
    # Switches that said the same before there was --load-mode.
    old = o.constant("mlock" if mode == "mmap+mlock" else mode)
    name = d.build.spelling(old.names) if old else None
    if name:
        d.args.append(name)
    elif mode not in ("mmap", "auto"):
        d.notes.append(f"this build has no way to say --load-mode {mode}")


def _verbosity(d: _Draft, w: Wishes) -> None:
    if any(a in w.extra for a in ("-v", "--verbose", "--log-verbose")):
        return
    name = d.build.spelling(spellings("verbosity"))
    if w.verbosity is not None:
        d.say(spellings("verbosity"), str(w.verbosity))
    elif name and has_levels(d.build, name):
        d.args += [name, str(TRACE)]


def has_levels(build: Capabilities, name: str) -> bool:
    """Whether ``-lv`` counts in six levels; builds whose default is 0 print sizes anyway, and 4 means debug there."""
    default = build.by_name[name].default
    return default.isdecimal() and default.isascii() and int(default) >= 2


def quiet(w: Wishes) -> str:
    """Why the log will show no sizes; "" when it will."""
    if silences(w.extra):
        return "the log is switched off"
    low = w.verbosity is not None and w.verbosity < TRACE
    return f"at --verbosity {w.verbosity} the log shows no sizes (wants {TRACE})" if low else ""


_SPECIAL: dict[str, Callable[[_Draft, Wishes], None]] = {
    "rpc": _rpc,
    "cache_type": _cache_types,
    "flash_attn": _flash_attention,
    "kv_unified": _unified,
    "parallel": _parallel,
    "fit": _fit,
    "load_mode": _load_mode,
    "verbosity": _verbosity,
}
"""Options that depend on another, or that builds spell in more than one way."""
