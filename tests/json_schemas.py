"""Checks what a command printed against ``gguftool/schemas/<command>.schema.json``."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

SCHEMAS = Path(__file__).parent.parent / "gguftool" / "schemas"


@cache
def _registry() -> Registry[Any]:
    found = [Resource.from_contents(json.loads(path.read_text())) for path in SCHEMAS.glob("*.schema.json")]
    return Registry().with_resources((str(resource.id()), resource) for resource in found)


@cache
def validator(command: str) -> Draft202012Validator:
    """The validator for ``command``."""
    path = SCHEMAS / f"{command}.schema.json"
    schema = json.loads(path.read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, registry=_registry())


def check_schema(found: Any) -> None:
    """Fail when ``found`` is not what the schema of its command says, an error too."""
    validator("envelope").validate(found)
    command = found["format"].removeprefix("gguftool.").partition("/")[0]
    validator(command).validate(found)
