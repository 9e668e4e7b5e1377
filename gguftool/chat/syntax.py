"""Jinja's own parser, with one kind of error for what it cannot parse."""

from __future__ import annotations

import jinja2
from jinja2 import nodes


def parsed(environment: jinja2.Environment, source: str) -> nodes.Template:
    """The syntax tree of a template.

    Raises:
        jinja2.TemplateSyntaxError: it does not parse; also where Python's own reader of numbers says so: more digits
            than it reads, digits of other scripts.
        RecursionError: it is nested too deeply.
    """
    try:
        return environment.parse(source)
    except SyntaxError as e:
        raise jinja2.TemplateSyntaxError(e.msg, 1) from None
    except ValueError as e:
        raise jinja2.TemplateSyntaxError(str(e).partition(";")[0], 1) from None
