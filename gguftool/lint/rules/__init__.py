"""The families of rules, one module or package each; order is the order of reports and documentation."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

from gguftool.lint.rule import Rule

FAMILIES = (
    "layout",
    "shards",
    "place",
    "safety",
    "metadata",
    "deploy",
    "rope",
    "constants",
    "quant",
    "tensors",
    "tokenizer",
    "template",
    "embedding",
    "source",
    "data",
    "draft",
    "adapter",
    "projector",
    "pair",
    "licence",
    "publish",
    "load",
)


@cache
def family(name: str) -> tuple[Rule, ...]:
    """The rules of one family in the order they are written."""
    if name not in FAMILIES:
        return ()
    module_name = f"{__name__}.{name}"
    module = import_module(module_name)
    # A large family is a package whose __init__ imports its modules in order.
    modules = [
        v for v in vars(module).values() if isinstance(v, ModuleType) and v.__name__.startswith(module_name + ".")
    ]
    # Rules a module imports from elsewhere are not its own.
    return tuple(
        v for one in [module, *modules] for v in vars(one).values() if isinstance(v, Rule) and v.family == name
    )


@cache
def catalogue() -> tuple[Rule, ...]:
    """All rules, family by family."""
    return tuple(r for name in FAMILIES for r in family(name))


@cache
def by_id() -> dict[str, Rule]:
    """All rules by id."""
    return {r.id: r for r in catalogue()}
