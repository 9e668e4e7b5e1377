"""Where the tokens that have a name stand in vocabularies that many models share.

`data/tokens.json` is written by `scripts/known_tokens.py`. Nobody searches four megabytes for sixty names that the next
model with the same vocabulary does not have either.
"""

from __future__ import annotations

from collections.abc import Mapping

from gguftool.facts.data import newest


def ids(name: int) -> Mapping[str, int | None]:
    """Texts that are asked for, each with the id that it has in a vocabulary; None where it is no token.

    Args:
        name: of the vocabulary, a key of `gguftool.format.vocabularies.KNOWN`; of another one nothing is said.
    """
    table, key = newest("tokens.json"), f"{name:08x}"
    try:
        found, first = table["found"][key]
    except KeyError:
        return {}
    out: dict[str, int | None] = dict.fromkeys(table["asked"])
    out.update(found)
    # The tokens of the bytes stand in a row, or are not there at all.
    if first is not None:
        out.update((f"<0x{byte:02X}>", first + byte if first >= 0 else None) for byte in range(256))
    return out
