"""Vocabularies that many models share: their sizes, and what their tokens and merges are known by, byte by byte.

A model is mostly one of some dozens of vocabularies, and what takes a look at each of 262,144 tokens to find out has
been found out about these. An array of which the BLAKE2 is that of a known one is that one.
"""

from __future__ import annotations

from gguftool.records import dataclass, field


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The sizes of a vocabulary: number of tokens, bytes of their strings, of the merges, of the map of characters;
    whether scores follow. ``digests``: of the tokens and of the merges, see `digest`; "" where one is not known.
    """

    count: int
    tokens: int
    merges: int
    scores: bool
    charsmap: int = 0
    digests: tuple[str, str] = field(default=("", ""), compare=False)


KNOWN: dict[int, Vocabulary] = {
    0x1F319E92: Vocabulary(100008, 1963839, 2060962, True, digests=("", "0e1903b92ef2dde7e0e0e981e7c535ba")),
    0xACF392F5: Vocabulary(64000, 828144, 0, True, digests=("2de4eb018fee75ca116cd224e477d927", "")),
    0x7720F95E: Vocabulary(30522, 504591, 0, False, digests=("4e7e9267473086d776e07feaada3a9ed", "")),
    0x74B99E1B: Vocabulary(256000, 4812783, 5027702, False, digests=("", "5b4b8411ec91b6a9e47a8fd593be1fe9")),
    0x7C36C810: Vocabulary(
        32256, 500546, 525410, False, digests=("cf5b4a0a787fb79f3cabc535a7463167", "3840cf541ca6a109289d929bf5f0bbd5")
    ),
    0x2F091D55: Vocabulary(
        102400,
        1753835,
        1805739,
        False,
        digests=("b5541282a992666f682afec57b6b8133", "cdc3e9bc0405f56eed855e87744eca9d"),
    ),
    0xF6929BE2: Vocabulary(
        65024, 982233, 1044601, False, digests=("7bf8c9f75822ba70b927e051960dc071", "6f411370a4714d23f5c610eaea5b735d")
    ),
    0xA2126E35: Vocabulary(
        262144, 4413447, 9251719, True, digests=("13932203145139522b6a02d8637212bb", "9975477bc403f7df3795575649c0b200")
    ),
    0xA18733C0: Vocabulary(
        50257, 758791, 806304, False, digests=("3a727f905fae4ae660c010b90a6ff23e", "7ba5c1a1dd86ee083d5e502b23265c5f")
    ),
    0x8317ABB3: Vocabulary(50432, 762287, 806647, False, digests=("", "f2ca24374bd16084836739118ef10ced")),
    0x581424A9: Vocabulary(
        128256,
        2099493,
        5204765,
        False,
        digests=("5cf3d1289d04f44125c3a688855b172f", "c92338db8f76ff082ce8167939cf5ce8"),
    ),
    0xF1C2D824: Vocabulary(32000, 466919, 0, True, digests=("05d026649b3d9bb42a3a46895d0e6ec7", "")),
    0xC73AC710: Vocabulary(250048, 4582235, 0, True, 237539, digests=("0122937105d67e55a977d317b699d2cc", "")),
    0xB01C7A60: Vocabulary(
        151936,
        2588196,
        2731548,
        False,
        digests=("f7c888b9b7ac810367b4d08f7cb2b063", "950d3216daf16df099095a1848ad7f6f"),
    ),
    0xB8781D3F: Vocabulary(
        49216, 739016, 784033, False, digests=("421111e64e4b80b971e4750e289e7e61", "8d57a97afc86a7bb43128c96c1674c90")
    ),
    0x01933B2D: Vocabulary(
        49152, 738071, 783795, False, digests=("c1243acda8246f362d5ef05c37a1e1a7", "92d83018eb027ceafaf429a8553cb513")
    ),
    0x6B4C13CC: Vocabulary(
        49152, 762386, 808677, False, digests=("2752020f0b54c8c63dfee4a4875476e5", "a1eced216849a31ab532ded4d0376921")
    ),
    0x78536D0F: Vocabulary(262144, 4412518, 0, True, digests=("b5a01a21a3ab41f8fa4aebd8654e35a1", "")),
}
"""By the CRC-32 of the first thousand tokens with their lengths: the `ggml-vocab-*.gguf` of llama.cpp (b11434), SmolLM2
and Gemma 3; measured by ``benchmarks/remote.py --vocabularies FILE…``. Only what is sound has a digest
(`gguftool.model.tokenlist.sound`)."""


@dataclass(frozen=True, slots=True)
class Whole:
    """An array of strings of a known vocabulary: its name (a key of `KNOWN`), bytes and digest."""

    name: int
    size: int
    digest: str

    def is_at(self, buf: memoryview, start: int, count: int) -> bool:
        """Whether an array of so many strings that begins there is this one."""
        return digest(count, buf[start : start + self.size]) == self.digest


def digest(count: int, data: bytes | memoryview) -> str:
    """What an array of ``count`` strings is known by, byte by byte; only who can break BLAKE2 makes another one."""
    from gguftool.digest import blake2b

    found = blake2b(count.to_bytes(8, "little"), digest_size=16)
    found.update(data)
    return found.hexdigest()
