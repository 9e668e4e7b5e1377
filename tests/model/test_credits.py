"""What a file says of its origin, and what the card of a repository says."""

from __future__ import annotations

from gguftool.model import from_source
from gguftool.model.card import read_card
from gguftool.model.credits import credits_of, repository
from gguftool.source import Memory
from tests.build import GGUF


def test_credits() -> None:
    made = (
        GGUF("llama").kv("general.name", "A  model\n").kv("general.license", "apache-2.0")
        .kv("general.base_model.count", 2)
        .kv("general.base_model.0.name", "First").kv("general.base_model.0.organization", "Org")
        .kv("general.base_model.0.repo_url", "https://huggingface.co/Org/First")
        .kv("general.base_model.1.url", "https://example.org/second")
        .kv("general.base_model.x.name", "no number")
        .kv("general.source.huggingface.repository", "Org/Source")
        .kv("general.repo_url", "https://hf.co/me/A-GGUF/tree/main").kv("general.tags", ["a", "b"])
        .kv("general.languages", 5).kv("general.author", 7)
    )  # fmt: skip
    c = credits_of(from_source(Memory(made.bytes(), "m.gguf")))
    assert c.name == "A model"
    assert c.licence is not None
    assert c.licence.expression == "Apache-2.0"
    assert [one.shown for one in c.bases] == ["Org/First", "https://example.org/second"]
    assert c.source is not None
    assert c.source.repository == "Org/Source"
    assert c.repository == "me/A-GGUF"
    assert (c.tags, c.languages, c.author) == (("a", "b"), (), "")
    assert c.tells_origin


def test_repository() -> None:
    assert repository("Org/Name") == "Org/Name"
    assert repository("https://huggingface.co/Org/Name/") == "Org/Name"
    assert repository("https://huggingface.co/Name") == ""
    assert repository("https://example.org/Org/Name") == ""
    assert repository("../etc") == ""


def test_card() -> None:
    card = read_card("---\r\nlicense: [mit, apache-2.0]\r\nbase_model: Org/Name\r\nlanguage:\n- no\n---\r\n# Title\n")
    assert card.licence is not None
    assert card.licence.expression == "MIT AND Apache-2.0"
    assert card.bases == ("Org/Name",)
    assert card.listed("language") == ("no",)
    assert card.body == "# Title\n"
    assert not card.fault


def test_cards_that_cannot_be_read() -> None:
    assert read_card("---\na: [\n---\n").fault.startswith("the metadata in front is no YAML")
    assert read_card("---\na: b\n").fault == "the metadata in front has no end (---)"
    assert read_card("---\n- a\n---\n").fault == "the metadata in front is no list of names and values"
    assert (read_card("# No metadata\n---\n").fault, read_card("---\n---\n").fault) == ("", "")
