"""What people write for a number of tokens, for a size, for a pair of cache types."""

from __future__ import annotations

import click
import pytest

from gguftool.cli.options import Command, option
from gguftool.cli.values import CACHE_TYPES, COUNT, SIZE, CountType, SizeType

NUMBERS = {
    "32768": 32768, "32k": 32768, "32K": 32768, "32ki": 32768, "128K": 131072, "1M": 1048576, "1m": 1048576,
    "32_768": 32768, "32,768": 32768, "1,048,576": 1048576, "1.5k": 1536, "0.5M": 524288, " 8k ": 8192, "1": 1,
}  # fmt: skip


@pytest.mark.parametrize(("text", "number"), NUMBERS.items())
def test_token_counts(text: str, number: int):
    assert COUNT.convert(text, None, None) == number


@pytest.mark.parametrize(
    "text",
    [*" k 32i 32kk 32,76 3,2768 _1 1_ 32.768 0.3k 1e5 -1 0x10 ² ٣".split(" "), "32 768", "9" * 99],
)
def test_no_token_counts(text: str):
    with pytest.raises(click.BadParameter):
        COUNT.convert(text, None, None)


def test_bounds_of_counts():
    assert CountType(0).convert("0", None, None) == 0
    for type_, text in ((COUNT, "0"), (CountType(16), "15"), (CountType(1, 64), "65")):
        with pytest.raises(click.BadParameter):
            type_.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "said"), [("16", "16GiB?"), ("24.5", "24.5GiB?"), ("1023", "1023GiB?"), ("16384", "16384MiB?")]
)
def test_a_size_whose_unit_was_forgotten(text: str, said: str):
    with pytest.raises(click.BadParameter, match="Name the unit") as caught:
        SIZE.convert(text, None, None)
    assert said in str(caught.value)


def test_sizes_that_are_meant():
    sizes = {"0": 0, "16B": 16, "1048576": 1 << 20, "16GiB": 16 << 30, "16gb": 16 * 10**9, "16G": 16 << 30}
    assert {text: SIZE.convert(text, None, None) for text in sizes} == sizes
    assert SizeType(small=True).convert("4096", None, None) == 4096
    with pytest.raises(click.BadParameter, match=r"4G\?"):
        SizeType(1000).convert("4", None, None)


@click.command(cls=Command, examples="x")
@option("--ctx", type=COUNT)
@option("--cache-type", type=CACHE_TYPES)
@option("-o", "--output")
@option("--kv-type", "own", aliases=("--own-former",))
def sample(**given: object) -> dict[str, object]:
    """A command."""
    return given


def parse(*args: str) -> dict[str, object]:
    found = sample.main(list(args), standalone_mode=False)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    "args",
    [
        ("--cache-type", "q8_0/q4_0"), ("-ctk", "q8_0", "-ctv", "q4_0"), ("-ctv", "q4_0", "-ctk", "q8_0"),
        ("--cache-type-k=q8_0", "--cache-type-v=q4_0"), ("--kv_cache_type", "Q8_0/Q4_0"),
        ("--kv-cache-type", "q8_0/q4_0"), ("--cache-type", "q8_0", "-ctv", "q4_0"),
        ("--cache_type_k", "q8_0", "-ctv=q4_0"),
    ],
)  # fmt: skip
def test_halves_and_whole_of_the_cache_type(args: tuple[str, ...]):
    assert parse(*args)["cache_type"] == ("q8_0", "q4_0")


def test_one_half_leaves_the_other_at_what_llama_cpp_takes():
    assert parse("-ctk", "q8_0")["cache_type"] == ("q8_0", "f16")
    assert parse("-ctv", "q8_0")["cache_type"] == ("f16", "q8_0")
    assert parse()["cache_type"] is None
    for no_type in ("q8_0/q4_0", "q8_0,q4_0", ""):
        with pytest.raises(click.BadParameter, match="one type"):
            parse("-ctk", no_type)


def test_a_name_belongs_to_the_option_that_shows_it():
    assert parse("--kv-type", "x") == {"ctx": None, "cache_type": None, "output": None, "own": "x"}
    assert parse("--own-former", "x")["own"] == "x"


def test_help_shows_one_name():
    shown = sample.get_help(click.Context(sample))
    assert all(name in shown for name in ("--ctx", "--cache-type K[/V]", "-o, --output", "--kv-type"))
    assert not any(name in shown for name in ("--ctx-size", "-ctk", "--kv-cache-type", "--outfile", "--own-former"))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--contex", "1"), "No such option: --contex. Did you mean `--ctx`?"),
        (("--ctx-len", "1"), "No such option: --ctx-len. Did you mean `--ctx`?"),
        (("--kv-cache-tpye", "f16"), "No such option: --kv-cache-tpye. Did you mean `--cache-type`?"),
        (("--kv-quant", "q8_0"), "No such option: --kv-quant. Did you mean `--cache-type`?"),
        (("--temp", "1"), "No such option: --temp. It is llama-server's: `gguftool launch MODEL -- …` hands it on."),
        (("-output", "x"), "No such option: -output. Did you mean `--output`?"),
        (("-ctx", "1"), "No such option: -ctx. Did you mean `--ctx`?"),
        (("-ot", "1"), "No such option: -ot. It is llama-server's: `gguftool launch MODEL -- …` hands it on."),
        (("--zzz",), "No such option: --zzz."),
    ],
)
def test_what_an_unknown_option_was_meant_to_be(args: tuple[str, ...], said: str):
    with pytest.raises(click.UsageError) as caught:
        parse(*args)
    assert caught.value.format_message() == said
    with pytest.raises(click.BadParameter) as bad:
        parse("--context-length", "many")
    assert "'--ctx'" in bad.value.format_message()
