"""Templates that want too much, made by kind: what is done, to what, and in which way it is called.

``python -m tests.chat.bombs`` runs all of them, in both engines, under the limits of the test; a name behind it runs
those of one kind. A line is printed for each that ends by memory or takes too long, and one for all.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import product
from pathlib import Path

from tests.chat.shapes import FURTHER

MEMORY = 512 << 20
"""Address space of the process that renders them."""
SECONDS = 3.0
"""Of the processor, for each."""
TEXTS = {
    "ascii": "('x'*60000)",
    "lines": "('x\\n'*30000)",
    "control": "('\\x01'*60000)",
    "wide": "('\u6f22'*60000)",
    "astral": "('\U0001f600'*60000)",
    "quotes": "('\"'*60000)",
    "marked": "(('&'*13000)|e)",
}
VALUES = {
    "list": "(['x'*60000]*40)",
    "many": "(['x']*40000)",
    "wide": "(['\U0001f600'*10000]*90)",
    "nested": "([[['x'*200]*50]*20]*4)",
    "dict": "dict(a=['x'*60000]*12, b='\u6f22'*60000)",
    "items": "({'a': 'x'*60000}.items())",
    "tuple": "(('x'*60000, 'x'*60000)*8)",
    "lazy": "(['x'*60000]*40)|map('upper')",
    "numbers": "([-(2**60000)]*400)",
    "floats": "([1.5e300]*20000)",
}
FILTERS: dict[str, tuple[str, ...]] = {
    # By place; a name in front of "=" is left away there.
    "replace": ("old='x', new='b'*60000", "old='', new='b'*60000", "old='x', new=['b'*60000]*90", "old='x', new=V"),
    "join": ("d='y'*60000", "d=V", "d=['y'*60000]*16"),
    "center": ("width=10**9", "width=-10**9"),
    "indent": ("width=10**8", "width='y'*60000", "width='y'*900, first=true, blank=true", "width=900, blank=true"),
    "format": ("V, V", "a=V, b=V"),
    "tojson": (
        "indent=10**8",
        "ensure_ascii=true",
        "indent='y'*60000",
        "separators=('y'*60000, 'z'*60000)",
        "indent=900",
    ),
    "truncate": ("length=70000, killwords=true, end='y'*69999", "length=10**9"),
    "batch": ("linecount=1000000, fill_with=V", "linecount=1000, fill_with=V", "linecount=1"),
    "slice": ("slices=1000000, fill_with=V", "slices=1000, fill_with=V"),
    "sort": ("attribute='a,'*30000", "reverse=true, attribute='a.'*30000"),
    "unique": ("attribute='a.'*30000", ""),
    "groupby": ("attribute='a.'*30000", "attribute='x', default=V"),
    "map": ("attribute='a.'*30000", "attribute='x', default=V"),
    "sum": ("start=''", "start=[]", "attribute='x', start=[]"),
    "round": ("precision=10**9", "precision=-10**9"),
    "trim": ("chars=V", "chars='y'*60000 + 'x'"),
    "int": ("default=0, base=36", "default=0, base=2"),
    **dict.fromkeys(
        "string safe e title upper capitalize wordcount list reverse length first last min max".split(), ("",)
    ),
}
METHODS: dict[str, tuple[str, ...]] = {
    "replace": ("'x', 'b'*60000", "'', 'b'*60000", "'x', V", "'x', 'bb'*30000, 50000"),
    "join": ("V", "['y'*60000]*400", "T", "['y'*60000]|map('upper')", "range(99999)|map('string')", "dict(a=1, b=2)"),
    "center": ("10**9", "65000, 'y'"),
    "ljust": ("10**9", "10**5, 'y'"),
    "rjust": ("10**9",),
    "zfill": ("10**9",),
    "expandtabs": ("10**9",),
    "translate": ("{120: 'y'*60000}",),
    "split": ("", "'x'", "'zzz'", "none, 60000"),
    "rsplit": ("'x'*30000 + 'y' + 'x'", "'x'"),
    "rfind": ("'xy' + 'x'*29000",),
    "partition": ("'x'",),
    "splitlines": ("true",),
    "strip": ("'y'*60000", "T"),
    **dict.fromkeys("upper lower title casefold swapcase capitalize encode".split(), ("",)),
}
PATTERNS = {
    "'%s'*20000": "% V", "'%r'*9000": "% V", "'%a'*9000": "% [T]", "'%(a)s'*13000": "% dict(a=V)",
    "'%s'*3 + '%(a(b)c)999999999d'": "% {'a(b)c': 1}", "'%999999999d'": "% 1", "'%*d'": "% (10**9, 1)",
    "'%.999999999f'": "% 1.5", "'%-0999999999.5hd'": "% 7", "'%s'*20": "% ((V,)*20)", "'%%%s'*8000": "% T",
    "'{0}'*20000": ".format(V)", "'{}'*300": ".format(*([V]*300))", "'{a}'*16000": ".format(a=V)",
    "'{0!r}'*9000": ".format(V)", "'{0[0]}'*9000": ".format(V)", "'{:>999999999}'": ".format('x')",
    "'{:>{}}'": ".format('x', 10**9)", "'{:\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661}'": ".format('x')",
    "'{:.999999999f}'": ".format(1.5)", "'{a}'*15000": ".format_map(dict(a=V))",
    "'{a[b]}'*9000": ".format_map({'a': {'b': T}})",
    "'{0.x}'*9000": ".format(namespace(x=V))", "'{x.previtem}'*5000": ".format_map({'x': cycler(V)})",
    "('{a}'*15000)['format']": "(a=V)", "('{a}'*15000)|safe": "",
}  # fmt: skip
OPERATIONS = (
    "T ~ V ~ T", "V ~ V", "V + V", "T + T", "[V]*9 + [V]*9", "V * 60000", "60000 * V", "T * T|length", "V == [V]",
    "T in V", "V in [V]", "T < T ~ 'x'", "V|string < V|string", "V[::-1]", "T[1:][1:][1:]", "-(2**65000)",
    "2**60000 // 3",
    "(2**60000) * (2**60000)", "9**9**9", "2**60000 % 3**20000", "(2**60000)|string", "'%d' % 2**60000",
    "'%x' % 2**60000",
    "range(10**9)", "range(99999)|list|string", "range(99999)|join(T)", "range(99999)|map('string')|list|tojson",
    "V is lower", "V|select('upper')|list", "V|select('in', V)|list", "V|map('tojson')|join",
    "V|map('format', V)|list",
    "strftime_now('%999999999Y')", "strftime_now('%c'*30000)", "strftime_now(V)", "raise_exception(V)", "x[V]",
    "V.x.y",
    "V|dictsort", "V|items|list", "dict(V)", "dict(a=V, b=V)|string", "namespace(a=V)|string", "cycler(V, V).items",
    "cycler(V, V).next()", "joiner(T)() ~ joiner(T)()", "V|first|upper|lower|title", "(T|safe) * 9", "(T|safe) + T",
    "(T|safe) % V", "(T|safe).join([V]*90)", "(T|safe).format(V)", "(T|safe).replace('x', T)", "(T|safe).striptags()",
    "V|length ~ V", "[V, V, V]|tojson", "{T: V}|tojson(indent=500)", "[[[[[[[[V]]]]]]]]|tojson(indent=1000)",
    "V|d(V)|string",
)  # fmt: skip
SHAPES = {
    "doubled": "{% set ns = namespace(l=V) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
    "{{ ns.l }}",
    "views": "{% set ns = namespace(l=dict(a=T)) %}{% for i in range(60) %}"
    "{% set ns.l = {'a': ns.l.items(), 'b': ns.l.items()} %}"
    "{% endfor %}{{ ns.l == ns.l }}{{ ns.l }}",
    "varargs": "{% macro f(n) %}{% if n %}{{ f(n - 1, varargs, varargs) }}{% else %}"
    "{{ varargs == [varargs] }}{{ varargs }}"
    "{% endif %}{% endmacro %}{{ f(60, V) }}",
    "compared keywords": "{% macro f(n) %}{% if n %}{{ f(n - 1, a=kwargs, b=kwargs) }}{% else %}"
    "{{ kwargs == dict(kwargs) }}{% endif %}{% endmacro %}{{ f(60, a=V) }}",
    "keywords": "{% macro f(n) %}{% if n %}{{ f(n - 1, a=kwargs, b=kwargs) }}{% else %}{{ kwargs }}{% endif %}"
    "{% endmacro %}"
    "{{ f(60, a=V) }}",
    "cycled": "{% set ns = namespace(c=cycler(V)) %}{% for i in range(60) %}"
    "{% set ns.c = cycler(ns.c.items, ns.c.items) %}"
    "{% endfor %}{{ ns.c.items == ns.c.items }}{{ ns.c.items }}",
    "kept": "{% set ns = namespace(l=[]) %}{% for i in range(50000) %}{% set ns.l = ns.l + [T[i:]] %}"
    "{% endfor %}{{ ns.l }}",
    "names": "".join(f"{{% set a{i} = T.split('q') %}}" for i in range(2000)),
    "slices": "".join(f"{{% set a{i} = T[1:] %}}" for i in range(2000)),
    "negative": "{% set n = 2**65000 %}{{ ([-n]*49000)|map('abs')|list|length }}",
    "recursive": "{% for a in [V] recursive %}{{ loop([a, a]) }}{% endfor %}",
    "appended": "{% set l = [1] %}{% for i in l %}{% set _ = l.append(V) %}{% set _ = l.append(l) %}{% endfor %}"
    "{{ l|tojson }}",
    "shared": "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
    "{{ ns.l|tojson }}{{ ns.l|string }}",
    "popped": "{% set l = range(40000)|list %}{% for i in range(40000) %}{% set _ = l.pop(0) %}{% endfor %}",
    "sorted": "{% for i in range(99999) %}{% set d = range(9999)|list|sort(reverse=true) %}{% endfor %}",
    "escaped": "{% autoescape true %}{{ ('&'*13000)|replace(';', 'y'*60000) }}{% endautoescape %}",
    "block": "{% set z %}{% for i in range(99999) %}{{ V }}{% endfor %}{% endset %}{{ z }}",
    "filtered": "{% filter replace('x', 'y'*60000) %}{{ T }}{% endfilter %}",
    "called": "{% macro f() %}{% for i in range(99999) %}{{ caller(V) }}{% endfor %}{% endmacro %}"
    "{% call(v) f() %}{{ v }}{% endcall %}",
    "angles": "{{ '<'*60000 }}{{ messages[-1].content }}{{ '['*60000 }}",
    "thoughts": "{% for i in range(900) %}{{ messages[-1].reasoning_content }}<{% endfor %}{{ '<'*30000 }}",
}
FILLED = (
    "v|tojson", "v|tojson(indent=900)", "v|tojson(separators=[t, t])", "v|string", "v|join(t)", "v|join", "t ~ v",
    "v ~ t",
    "v|sort", "v|sort(reverse=true)|last", "v|min", "v|max", "v == v", "t in v", "v|map(attribute='0'*9000)|list",
    "v[::-1]",
    "v + v + v + v", "v|list|reverse|list", "[v, v, v]|string", "{'a': v, 'b': v}|tojson",
    "v|select('eq', t)|list", "v",
    "v|first|replace('x', t)", "t|replace('', t)", "t|indent(900)", "'{}{}{}'.format(v, v, v)",
    "namespace(a=v)|string",
    "t|split('x')|join(t)", "t.rsplit('x' * 30000 + 'yx')|length", "t.strip(t)", "v|dictsort",
    "dict(a=v)|items|list|string",
    "t|tojson(ensure_ascii=true)", "strftime_now('%9999999Y')", "t * 99", "t[::-1]|upper|title|capitalize|trim",
    "w|tojson",
    "w|string", "w == w", "w|list|length", "t|format(v, v)", "raise_exception(t)", "v[t]", "v|selectattr(t)|list",
)  # fmt: skip
"""Done to a list that was filled in a loop, as both engines can, or to one that holds itself."""
SYNTAX = {
    "opened": "{{" * 500_000, "opened short": "{{" * 60_000, "tags": "{%" * 60_000, "comments": "{#" * 60_000,
    "raw": "{% raw %}" * 14_000,
    "brackets": "{{ " + "[" * 60_000, "parentheses": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "dots": "{{ a" + ".b" * 50_000 + " }}", "nots": "{{ " + "not " * 20_000 + "1 }}",
    "sums": "{{ 1" + "+1" * 50_000 + " }}",
    "digits": "{{ " + "9" * 5000 + " }}", "parts": "{{ " + "1_" * 60_000 + "1e }}", "quotes": "{{ '" + "a" * 120_000,
    "backslashes": "{{ '" + "\\" * 120_000 + "' }}", "blanks": "{{" + " " * 120_000, "lines": (" " * 199 + "\n") * 600,
    "paragraphs": ((" " * 199 + "\n") * 59 + "x") * 11, "hexadecimal": ("ab " * 79 + "zz") * 500,
    "base64": ("A" * 159 + " ") * 800,
    "orders": "ignore " * 18_000, "json": '{"a": "' + '\\"' * 60_000 + "\\",
    "ifs": "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
    "concatenated": "{% set a='" + "x" * 9000 + "' %}{{ a" + " ~ a" * 9000 + " }}",
    "percents": "{% set a='" + "x" * 9000 + "' %}{{ '" + "%s" * 4000 + "' % (" + "a," * 4000 + ") }}",
    "replaced": "{% set a='" + "x" * 9000 + "' %}" + "{{ a.replace('x', a) }}" * 1000,
    "compared": "{% set d = strftime_now('%Y') %}" + "{{ (d == d) == d }}" * 1500,
    "words": "{% if 'abc' in messages[-1].content %}{{ 'x '*30000 }}{% else %}{{ 'y x '*15000 }}{% endif %}",
    "waiting": "{% for i in range(20000) %}{% endfor %}"
    + "".join(f"{{% if '{a}{b}' in messages[0].content %}}a{{% endif %}}" for a in "abcdef" for b in "ghijkl"),
}  # fmt: skip


def _ways(name: str, args: str, value: str, *, is_filter: bool) -> Iterator[tuple[str, str]]:
    """The ways to call a filter or a method."""
    parts = [p.strip() for p in args.split(", ")] if args else []
    places = ", ".join(p.partition("=")[2] if p.partition("=")[0].isidentifier() else p for p in parts)
    if is_filter:
        yield "place", f"{{{{ ({value}|{name}({places}))|list|length }}}}"
        if args:
            yield "name", f"{{{{ {value}|{name}({args}) }}}}"
            named = ", ".join(f"'{p.partition('=')[0]}': {p.partition('=')[2]}" for p in parts if "=" in p)
            yield "spread", f"{{{{ {value}|{name}(**{{{named}}}) }}}}"
        yield "mapped", f"{{{{ ([{value}]*9)|map('{name}'{', ' + places if places else ''})|list }}}}"
        yield "block", f"{{% filter {name}({places}) %}}{{{{ {value} }}}}{{% endfilter %}}"
    else:
        yield "method", f"{{{{ {value}.{name}({args}) }}}}"
        yield "item", f"{{{{ {value}['{name}']({args}) }}}}"
        yield "kept", f"{{% set f = {value}.{name} %}}{{% for i in range(3) %}}{{{{ f({args}) }}}}{{% endfor %}}"
        yield "spread", f"{{{{ {value}.{name}(*[{args}]) }}}}"


def _filled(template: str, text: str = "ascii", value: str = "list") -> str:
    return template.replace("V", VALUES[value]).replace("T", TEXTS[text])


def every() -> Iterator[tuple[str, str]]:
    """Name and template of each; names of the same kind have the same beginning."""
    for name, forms in FILTERS.items():
        for args, (kind, value) in product(forms, [*TEXTS.items(), *VALUES.items()]):
            for way, template in _ways(name, args, "(" + value + ")", is_filter=True):
                yield f"{name} filter, {way}, {kind}: {args}", _filled(template)
    for name, forms in METHODS.items():
        for args, (kind, value) in product(forms, TEXTS.items()):
            for way, template in _ways(name, args, value, is_filter=False):
                yield f"{name} method, {way}, {kind}: {args}", _filled(template)
    for (pattern, args), text, value in product(PATTERNS.items(), TEXTS, VALUES):
        yield f"pattern {pattern}, {text}, {value}", _filled(f"{{{{ ({pattern}){args} }}}}", text, value)
    for operation, text, value in product(OPERATIONS, TEXTS, VALUES):
        yield f"operation {operation}, {text}, {value}", _filled(f"{{{{ {operation} }}}}", text, value)
    for (name, template), value in product(SHAPES.items(), VALUES):
        yield f"shape {name}, {value}", _filled(template, "ascii", value)
    for operation, text in product(FILLED, TEXTS):
        fill = (
            "{% set t = "
            + TEXTS[text]
            + " %}{% set ns = namespace(v=[t]) %}{% for i in range(12) %}{% set ns.v = ns.v + ns.v %}"
        )
        fill += "{% endfor %}{% set v = ns.v %}{% set w = [v, v] %}{% set _ = w.append(w) %}"
        yield f"filled {operation}, {text}", fill + "{{ " + operation + " }}"
    for name, template in FURTHER.items():
        for text, value in product(TEXTS if "T" in template else ["ascii"], VALUES if "V" in template else ["list"]):
            yield f"further {name}, {text}, {value}", _filled(template, text, value)
    for name, template in SYNTAX.items():
        yield f"syntax {name}", template


def sample(most: int) -> list[tuple[str, str]]:
    """So many of all, evenly spread over the kinds, and all shapes once; always the same."""
    bombs = list(every())
    rest = [b for b in bombs if not b[0].startswith(("shape", "syntax"))]
    shapes = [(f"shape {name}", _filled(template)) for name, template in SHAPES.items()]
    step = len(rest) / most
    return [*(rest[int(i * step)] for i in range(most)), *shapes, *(b for b in bombs if b[0].startswith("syntax"))]


def rendered(template: str) -> str:
    """What lint and the server's engine make of a template; "" or why one ended."""
    import jinja2

    from gguftool.chat.engine.server import Server
    from gguftool.chat.meter import LimitReached
    from gguftool.chat.sandbox import Template

    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "y", "reasoning_content": "z"}]
    ends = []
    try:
        ends.append(Template(template).render({"messages": messages, "bos_token": "<s>"}).error)
    except (jinja2.TemplateSyntaxError, LimitReached) as e:
        ends.append(str(e))
    try:
        server = Server(template, now=datetime(2026, 3, 17))
        ends.append(server.main.render({"messages": messages, "bos_token": "<s>"}, datetime(2026, 3, 17)).error)
        _ = server.main.caps
    except (jinja2.TemplateSyntaxError, LimitReached) as e:
        ends.append(str(e))
    return " | ".join(ends)


def run(bombs: list[tuple[str, str]]) -> list[str]:
    """What is wrong with each: memory, or seconds of the processor."""
    wrong = []
    for name, template in bombs:
        begun = time.process_time()
        end = rendered(template)
        spent = time.process_time() - begun
        if "MemoryError" in end:
            wrong.append(f"{name}: {end[:200]}")
        if spent > SECONDS:
            wrong.append(f"{name}: {spent:.1f} s")
    return wrong


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    most = int(sys.argv[1]) if sys.argv[1:] and sys.argv[1].isdecimal() else 0
    chosen = sample(most) if most else [b for b in every() if b[0].startswith(sys.argv[1] if sys.argv[1:] else "")]
    found = run(chosen)
    # ru_maxrss of a started process begins with that of the one that started it.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = int(status.partition("VmHWM:")[2].split()[0]) << 10
    print(json.dumps({"templates": len(chosen), "wrong": found, "peak": peak, "seconds": time.process_time()}))
