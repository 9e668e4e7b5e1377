"""``gguftool rules``: the catalogue of lint rules."""

from __future__ import annotations

import click

from gguftool.cli.options import Session, command, format_option, pass_session


@command(
    examples="""
    gguftool rules                        all rules
    gguftool rules deploy                 one family
    gguftool rules kv-cache-type-missing  one rule in full: why, evidence, example, fix
    """
)
@click.argument("name", required=False, metavar="[RULE|FAMILY]")
@format_option("text", "json")
@pass_session
def rules(session: Session, name: str | None) -> int:
    """Show what lint checks, and why."""
    from gguftool.lint.catalogue import check_name, described, of_family
    from gguftool.report import rules as report

    if name is not None:
        check_name(name)
    one = described().get(name) if name else None
    found = (one,) if one else of_family(name) if name else tuple(described().values())
    if session.format == "json":
        session.write_json(ok=True, body={"rules": [report.rule_json(r) for r in found]})
    else:
        lines = report.rule_text(one, session.style) if one else report.rule_list(found, session.style)
        session.out("\n".join(lines))
    return 0
