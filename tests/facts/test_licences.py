"""Names of licences: SPDX's expressions, the Hub's identifiers, and what neither knows."""

from __future__ import annotations

import pytest

from gguftool.facts.data import load
from gguftool.facts.licences import USES, for_card, licence, of_base, of_link


@pytest.mark.parametrize(
    ("text", "expression", "known"),
    [
        ("apache-2.0", "Apache-2.0", True),
        ("MIT", "MIT", True),
        ("mit or apache-2.0", "MIT OR Apache-2.0", True),
        ("(MIT AND CC-BY-4.0) or Apache-2.0", "(MIT AND CC-BY-4.0) OR Apache-2.0", True),
        ("gpl-2.0-only with classpath-exception-2.0", "GPL-2.0-only WITH Classpath-exception-2.0", True),
        ("apache-2.0,mit", "Apache-2.0 AND MIT", True),
        ("pddl", "PDDL-1.0", True),
        ("openmdw-1.0", "OpenMDW-1.0", True),
        ("llama3.1", "LicenseRef-llama3.1", True),
        ("Apache License 2.0", "LicenseRef-Apache-License-2.0", False),
        ("LicenseRef-mine", "LicenseRef-mine", False),
        ("AND", "LicenseRef-AND", False),
        ("(mit", "LicenseRef-mit", False),
        ("../../\x1b[2J", "LicenseRef-2J", False),
        ("💥", "LicenseRef-unnamed", False),
    ],
)
def test_expressions(text: str, expression: str, known: bool) -> None:
    found = licence(text)
    assert found is not None
    assert (found.expression, found.known) == (expression, known)


def test_what_names_none() -> None:
    assert [licence(text) for text in ("", " ", "other", "Unknown")] == [None] * 4


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("mit", ""),
        ("cc-by-sa-4.0", ""),
        ("CC-BY-NC-SA-4.0", "non-commercial"),
        ("cc-by-nd-4.0", "no-derivatives"),
        ("apple-amlr", "research"),
        ("PolyForm-Noncommercial-1.0.0", "non-commercial"),
        ("mrl", "research"),
        ("gemma", "acceptable-use"),
        ("mit AND gemma", "acceptable-use"),
        ("mit OR gemma", ""),
        ("gemma OR cc-by-nc-4.0", "non-commercial"),
        ("NCSA", ""),
    ],
)
def test_what_they_restrict(text: str, use: str) -> None:
    found = licence(text)
    assert found is not None
    assert found.use == use


def test_bases() -> None:
    said = {
        "meta-llama/Llama-3.1-8B-Instruct": "llama3.1",
        "meta-llama/Meta-Llama-3.1-70B": "llama3.1",
        "meta-llama/Meta-Llama-3-8B": "llama3",
        "google/gemma-2b": "gemma",
        "google/gemma-3-270m-it": "gemma",
        "google/gemma-3n-E4B-it": "gemma",
        "google/gemma-4-31B-it": None,
        "google/medgemma-27b-it": None,
        "CohereLabs/aya-expanse-8b": "cc-by-nc-4.0",
        "CohereLabs/aya-101": None,
        "somebody/Llama-3.1-8B-tuned": None,
        "Qwen/Qwen2.5-3B-Instruct": "qwen-research",
        "Qwen/Qwen2.5-32B-Instruct": None,
    }
    found = {name: of_base(name) for name in said}
    assert {name: one.said if one else None for name, one in found.items()} == said


def test_the_table() -> None:
    table = load("licences.json")
    spdx = set(table["spdx"])
    assert len(spdx) > 700
    for name, row in table["hub"].items():
        assert row.get("spdx", "MIT") in spdx, name
        assert row.get("use", "research") in USES, name
    assert set(table["named"].values()) <= set(USES)
    assert all(licence(name) is not None for _, name in table["bases"])


def test_for_a_card() -> None:
    def said(text: str) -> str | None:
        found = licence(text)
        assert found is not None
        return for_card(found)

    assert said("Apache-2.0") == "apache-2.0"
    assert said("gemma") == "gemma"
    assert said("MIT OR Apache-2.0") is None
    assert said("mrl") is None


def test_links() -> None:
    said = {
        "https://www.apache.org/licenses/LICENSE-2.0": "Apache-2.0",
        "https://opensource.org/license/mit": "MIT",
        "https://creativecommons.org/licenses/by-nc-sa/4.0/legalcode": "CC-BY-NC-SA-4.0",
        "https://www.gnu.org/licenses/agpl-3.0.html": "AGPL-3.0",
        "https://ai.google.dev/gemma/terms": "LicenseRef-gemma",
        "https://www.llama.com/llama3_1/license/": "LicenseRef-llama3.1",
        "https://llama.com/llama4/license": "LicenseRef-llama4",
        "https://example.org/?https://ai.google.dev/gemma/terms": None,
        "LICENSE": None,
        "": None,
    }
    found = {link: of_link(link) for link in said}
    assert {link: one.expression if one else None for link, one in found.items()} == said
    assert all(one.known for one in found.values() if one)


def test_the_same() -> None:
    def same(a: str, b: str) -> bool:
        one, two = licence(a), licence(b)
        assert one is not None
        assert two is not None
        return one.same(two)

    assert same("gpl-3.0", "GPL-3.0-or-later")
    assert same("AGPL-3.0", "agpl-3.0-only")
    assert same("mit,apache-2.0", "Apache-2.0 AND MIT")
    assert not same("gpl-3.0", "lgpl-3.0")
    assert not same("cc-by-4.0", "cc-by-nc-4.0")
    one, two = licence("MIT OR Apache-2.0"), licence("apache-2.0")
    assert one is not None
    assert two is not None
    assert one.holds(two)
    assert not two.holds(one)
