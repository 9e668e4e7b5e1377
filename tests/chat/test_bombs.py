"""No template takes more memory or time than it may, whatever it does, to what, and however it calls it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from gguftool.chat.meter import Meter
from gguftool.chat.sandbox import Template

COUNT = 260


def test_hundreds_of_them_by_kind_need_little_memory_and_time() -> None:
    """In a process with 512 MB of address space; 3 seconds of the processor each."""
    pytest.importorskip("resource")
    run = [sys.executable, "-m", "tests.chat.bombs", str(COUNT)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=600, check=True)
    out = json.loads(done.stdout)
    assert out["wrong"] == []
    assert out["templates"] >= 250
    assert out["peak"] < 256 << 20


SOUND = {
    "a year beside a field": ("{{ 'In 2024 and %s' % 'x' }}", "In 2024 and x"),
    "a year in braces' text": ("{{ '2024: {}'.format(7) }}", "2024: 7"),
    "many lines, indented": ("{{ ('a\n' * 200)|indent(2) }}", "a\n" + "  a\n" * 199),
    "replace by name": ("{{ 'abc'|replace(old='b', new='xx') }}", "axxc"),
    "a width": ("{{ '%5.2f|{:>4}'.format(1) % 2.5 }}", " 2.50|   1"),
    "a sum by attribute": ("{{ [{'a': 1}, {'a': 2}]|sum(attribute='a', start=3) }}", "6"),
    "join of an iterator": ("{{ [1, 2]|map('string')|join('-') }}", "1-2"),
    "join of keys": ("{{ {'a': 1, 'b': 2}.keys()|join(', ') }}", "a, b"),
    "nothing to walk": ("{{ none|map('upper')|list }}", "[]"),
    "batches": ("{{ [1, 2, 3]|batch(2, 0)|list }}", "[[1, 2], [3, 0]]"),
    "floats": ("{{ ([1.5] * 5000)|list|length }} {{ ([1.5] * 5000)|string|length }}", "5000 25000"),
    "format by name": ("{{ '%(a)s-%(b)s'|format(a=1, b=2) }} {{ '{a[b]}'.format_map({'a': {'b': 3}}) }}", "1-2 3"),
    "a number as text": ("{{ '%d %x' % (-7, 255) }} {{ -(3) }} {{ 7 // 2 }} {{ 7 / 2 }}", "-7 ff -3 3 3.5"),
    "a method kept": ("{% set f = 'a{}'.format %}{{ f('b') }}", "ab"),
    "more arguments": ("{% macro f(a) %}{{ a }}{{ varargs }}{% endmacro %}{{ f(1, [2], 3) }}", "1([2], 3)"),
    "a namespace handed on": ("{% macro f(n) %}{{ n.x }}{% endmacro %}{{ f(namespace(x=1)) }}", "1"),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_small_is_rendered(name: str) -> None:
    template, text = SOUND[name]
    result = Template(template).render({})
    assert (result.text, result.error) == (text, "")


def test_time_is_that_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A neighbour's work, seen by the wall clock alone, ends nothing."""
    monkeypatch.setattr("time.monotonic", lambda: 1e9)
    monkeypatch.setattr("time.perf_counter", lambda: 1e9)
    assert Template("{% for i in range(9000) %}{% endfor %}done").render({}).text == "done"
    spent = iter(range(10**9))
    monkeypatch.setattr("time.thread_time", lambda: float(next(spent)))
    slow = Template("{% for i in range(9000) %}{% endfor %}done").render({})
    assert (slow.kind, slow.error) == ("limit", f"more than {Meter.SECONDS:g} seconds of the processor")
