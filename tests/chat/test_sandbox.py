"""Hostile templates end soon, in little memory, with nothing reached; honest ones render as everywhere else."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import jinja2
import pytest

from gguftool.chat.meter import LimitReached, Meter
from gguftool.chat.sandbox import Rendered, Template
from tests.pace import within

# Seconds of the processor no template may take, parsing included.
SOON = 3.0


def grow(step: str) -> str:
    """Sixty rounds that each enlarge ``ns.x``."""
    return (
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = "
        + step
        + " %}{% endfor %}{{ ns.x }}"
    )


def nest(literal: str, last: str) -> str:
    """24 values, each holding the one before several times; ``last`` uses the last one, ``v23``."""
    steps = [f"{{% set v{i} = {literal.replace('V', f'v{i - 1}' if i else '1')} %}}" for i in range(24)]
    return "".join(steps) + last


BIG = "{% set b = 'x' * 60000 %}"
BOMBS = {
    "loops in loops": "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
    "empty loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "filtered loops": "{% for a in range(99999) %}{% for b in range(99999) if b < 0 %}x{% endfor %}{% endfor %}",
    "range": "{% for a in range(10 ** 12) %}{% endfor %}",
    "text times number": "{{ 'x' * 10 ** 10 }}",
    "list times number": "{% set x = [0] * 10 ** 10 %}",
    "power": "{{ 10 ** (10 ** 8) }}",
    "growing number": "{% set ns = namespace(x=10 ** 300) %}{% for i in range(99) %}"
    "{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "concatenation": grow("ns.x ~ ns.x"),
    "addition": grow("ns.x + ns.x"),
    "replace": grow("ns.x.replace('a', 'aaaaaaaaaaaaaaaaaaa')"),
    "replace filter": grow("ns.x|replace('a', 'aaaaaaaaaaaaaaaaaaa')"),
    "join": grow("ns.x.join([ns.x] * 10)"),
    "join filter": "{{ range(99999)|map('string')|join('x' * 40000) }}",
    "center": "{{ 'x'|center(10 ** 9) }}",
    "center while compiling": "{% if 'a'|center(1000000000) %}{% endif %}",
    "ljust": "{{ 'x'.ljust(10 ** 9) }}",
    "format": "{{ '{:>1000000000}'.format('x') }}",
    "format with computed width": "{{ '{:>{w}}'.format('x', w=10 ** 9) }}",
    "percent": "{{ '%1000000000d' % 1 }}",
    "percent star": "{{ '%*d' % (10 ** 9, 1) }}",
    "indent": "{{ ('a\n' * 10000)|indent('x' * 1000) }}",
    "tojson indent": "{{ [1]|tojson(indent=10 ** 9) }}",
    "lists of lists": nest("[V, V, V, V]", "{{ v23 }}"),
    "dicts of dicts": nest("{'a': V, 'b': V}", "{{ v23|tojson }}"),
    "dict calls": nest("dict(a=V, b=V)", "{{ v23 }}"),
    "namespaces": nest("namespace(a=V, b=V)", "{{ v23 }}"),
    "added lists": "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"
    "{{ ns.x }}",
    "mapped lists": "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
    "{% set ns.x = [ns.x]|map('list')|list + [ns.x] %}{% endfor %}{{ ns.x }}",
    "batches": "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = (ns.x|batch(1, ns.x)|list) * 2 %}"
    "{% endfor %}{{ ns.x }}",
    "compared lists": "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}"
    "{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
    "endless macro": "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "doubling macro": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "text in a macro": "{% macro f() %}"
    + "x" * 10000
    + "{% endmacro %}{% macro g() %}{% for i in range(99999) %}{{ f() }}"
    "{% endfor %}{% endmacro %}{{ g() }}",
    "text in a block": "{% set z %}{% for i in range(99999) %}" + "x" * 50000 + "{% endfor %}{% endset %}",
    "output in a block": BIG + "{% set z %}{% for i in range(99999) %}{{ b }}{% endfor %}{% endset %}",
    "call block": "{% macro f() %}{% for i in range(99999) %}{{ caller() }}{% endfor %}{% endmacro %}"
    "{% call f() %}" + "x" * 10000 + "{% endcall %}",
    "recursive loop": "{% for a in [1] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "search": BIG + "{% set c = 'xxxxxy' in b %}" * 4000,
    "slices": BIG + "{% for i in range(99999) %}{% set c = b[1:] %}{% endfor %}",
    "comparisons": BIG + "{% set d = 'x' * 60000 %}" + "{% set c = b == d %}" * 4000,
    "filters in a row": BIG + "{% set c = b|upper %}" * 4000,
    "methods in a row": BIG + "{% set c = b.upper() %}" * 4000,
    "sorts": "{% for i in range(99999) %}{% set d = range(9999)|list|sort(reverse=true) %}{% endfor %}",
    "sum of lists": "{{ ([[1]] * 40000)|sum(start=[]) }}",
}


def render(source: str) -> Rendered:
    try:
        return Template(source).render({"messages": [{"role": "user", "content": "x"}]})
    except LimitReached as e:
        return Rendered("", str(e), "limit")


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_end(name: str) -> None:
    with within(SOON):
        result = render(BOMBS[name])
    assert result.kind == "limit", result
    assert result.text == ""


@pytest.mark.parametrize(
    "name", ["text times number", "concatenation", "batches", "text in a block", "format", "join filter"]
)
def test_bombs_need_little_memory(name: str) -> None:
    tracemalloc.start()
    render(BOMBS[name])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 << 20


@pytest.mark.parametrize(
    "source",
    [
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "[" * 5000 + "]" * 5000 + " }}",
        "{{ " + "not " * 20000 + "1 }}",
        "{{ 1" + "+1" * 50000 + " }}",
        "{{ a" + ".b" * 50000 + " }}",
        "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
        "{{ range(9)" + "|select('odd')|list" * 3000 + " }}",
        "x" * (1 << 20),
        "{{a.b}}" * 18000,
    ],
)
def test_shapes_no_parser_should_see(source: str) -> None:
    with within(SOON), pytest.raises(LimitReached):
        Template(source)


def test_statements_python_cannot_nest() -> None:
    result = render("{% for i in [1] %}" * 40 + "x" + "{% endfor %}" * 40)
    assert result.kind in ("error", "limit")


ESCAPES = (
    "{{ ''.__class__ }}",
    "{{ ''['__class__'] }}",
    "{{ ''|attr('__class__') }}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update({'a': 1}) }}",
    "{{ messages.pop() }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ raise_exception.__globals__ }}",
    "{{ strftime_now.__self__ }}",
    "{{ (1).to_bytes(10, 'big') }}",
    "{{ 'x'.encode() }}",
    "{{ '{0.__class__}'.format('x') }}",
    "{{ '%s'.__mod__('x') }}",
    "{{ [].__class__.__mro__[1].__subclasses__() }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
)


@pytest.mark.parametrize("source", ESCAPES)
def test_nothing_is_reached(source: str) -> None:
    messages = [{"role": "user", "content": "x"}]
    result = Template(source).render({"messages": messages})
    assert "class" not in result.text
    assert "root:" not in result.text
    assert messages == [{"role": "user", "content": "x"}]
    # Either refused outright, or the access gives jinja2's harmless undefined value.
    assert result.kind in ("error", "undefined") or result.text == ""


def test_limits_hold_in_threads() -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(render, [BOMBS["loops in loops"], "{{ messages[0].content }}"] * 4))
    assert [r.kind for r in results] == ["limit", ""] * 4


def test_a_template_renders_many_times_with_fresh_limits() -> None:
    template = Template("{% for i in range(1000) %}{{ i }},{% endfor %}")
    texts = {template.render({}).text for _ in range(Meter.STEPS // 1000)}
    assert len(texts) == 1


def test_extensions_of_chat_templates() -> None:
    source = """
    {%- for m in messages %}
        {%- if loop.index0 == 2 %}{% break %}{% endif %}
        {%- if m.role == 'system' %}{% continue %}{% endif %}
        {%- generation %}<{{ m.content | trim }}>{% endgeneration %}
    {%- endfor %}
    {{- {'b': 'ä<', 'a': [1, none, true]} | tojson }}
    {{- strftime_now('%Y') }}
    """
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": " u "},
        {"role": "user", "content": "v"},
    ]
    result = Template(source).render({"messages": messages})
    # tojson as transformers has it: insertion order, text as it is, no HTML escapes.
    assert result.text.strip() == '<u>{"b": "ä<", "a": [1, null, true]}2026'


def test_trim_blocks_and_lstrip_blocks() -> None:
    assert Template("a\n  {% if true %}\nb\n  {% endif %}\nc").render({}).text == "a\nb\nc"


def test_refusal_of_the_template_itself() -> None:
    result = Template("{{ raise_exception('only users') }}").render({})
    assert (result.kind, result.error) == ("raised", "only users")


def test_a_number_of_5000_digits_is_a_syntax_error() -> None:
    with pytest.raises(jinja2.TemplateSyntaxError, match="Exceeds the limit"):
        Template("{{ " + "9" * 5000 + " }}")


def test_syntax_errors_name_the_line() -> None:
    with pytest.raises(jinja2.TemplateSyntaxError) as caught:
        Template("a\nb\n{{ x")
    assert caught.value.lineno == 3
