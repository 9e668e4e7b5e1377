"""Texts that tokenizers are compared with: always the same, about 3,000, in classes that say where two part."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

EVERYDAY = ("prose", "code", "numbers", "whitespace", "special tokens", "chat turns")
"""Classes that every use of a model meets."""
STEP = 128
"""Characters of one text about a block of Unicode."""
_OLD = unicodedata.ucd_3_2_0
"""Characters that were there in 2002 and have kept their category: tables of Unicode differ in what came later."""


class Sample(NamedTuple):
    """A text, and the class it belongs to: ``code``, ``unicode: U+0400`` …"""

    kind: str
    text: str


_PROSE = (
    "Hello, world!",
    "The quick brown fox jumps over the lazy dog.",
    "It's what they'd've said: \"don't\" — isn't it? I'LL go, WE'VE been, you're, he's, I'm, she'd.",
    "Dr. O'Neill's e-mail (see p. 12, §3) arrived at 9:30 a.m.; reply ASAP... or else?!",
    "Größe, façade, naïve, coöperate, Ångström, São Paulo, œuvre, İstanbul, straße, STRASSE.",
    "¿Qué pasa? ¡Nada! «Voilà», „gut“, ‘so’, “ja” … ‹x› — – ‑ ·",
    "https://example.com/a/b?c=d&e=%20f#frag user@example.org C:\\Users\\x /usr/local/bin",
    "#hashtag @mention $AAPL 50% 3/4 A&B x^2 ~5 a_b c|d <tag/> {x} [y] `z`",
)
_SCRIPTS = (
    "Привет, как дела? Всё хорошо — спасибо!",
    "Γειά σου Κόσμε, τι κάνεις;",
    "你好，世界！今天天气怎么样？我们2024年3月去北京。",
    "こんにちは世界。カタカナとひらがな、漢字ＡＢＣ１２３。",
    "안녕하세요, 세계! 한국어 문장입니다.",
    "สวัสดีชาวโลก ภาษาไทยไม่มีช่องว่าง",
    "नमस्ते दुनिया, क्षत्रिय हिन्दी में।",
    "Xin chào thế giới, tiếng Việt có dấu: ế ề ể ễ ệ.",
    "Hello你好мирWorld123abc漢字",
)
_CODE = (
    "def f(x, *args, **kw):\n    return [i**2 for i in range(10) if i % 2 == 0]\n",
    'int main(void) {\n\tprintf("%d\\n", 0x1F << 2);\n\treturn 0;\n}\n',
    "for(let i=0;i<10;i++){a[i]+=b[i]??c?.d;}\n// done\n",
    "SELECT * FROM t WHERE a='x''y' AND b<>3;\n",
    '<div class="a b">\n  <p>x&nbsp;y</p>\n</div>\n',
    '{"a": [1, 2.5e-3, null, true], "b\\u00e9": {"c": "\\n"}}',
    "#!/bin/sh\nset -euo pipefail\necho \"${HOME:-/root}\" | sed -e 's/a\\/b/c/g' >/dev/null 2>&1\n",
    "\\begin{equation} \\frac{a_1}{b^{2}} \\leq \\sum_{i=0}^{n} x_i \\end{equation}",
    "camelCase snake_case SCREAMING_SNAKE kebab-case PascalCase HTTPServer2XML iPhone14ProMax",
    "    if (a && !b || c == d) {\n        e = f ? g : h;\n    }\n\n\n",
    "a+=b; a-=c; a*=d; a/=e; a==b; a!=c; a<=d; a>=e; a->b; a::b; a=>b; a...b; /* x */ // y\n",
    "```python\nprint('hi')\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
)
_NUMBERS = (
    "0 1 12 123 1234 12345 123456 1234567 12345678 123456789 1234567890",
    "3.14159 -2.5 +7 1e10 1.5E-7 0x1F 0b101 0o17 1_000_000 1,234,567.89 1.234.567,89",
    "2024-03-17 17/03/2024 12:34:56.789 +49 (0)30 123-456 192.168.0.1 v1.2.3-rc4",
    "x1 y22 z333 4a 55b 666c a1b2c3 ½ ² ³ ¼ ① Ⅷ ٣٤٥ १२३ ๔๕ 三百",
    "1 2  3   4    5\n6\t7",
    "$1,000.00 €5 £10.50 100% 20°C 5'10\" #42 No.7",
)
_BLANKS = (" ", "\n", "\t", "\r\n", "\r")
_ODD_BLANKS = ("\u00a0", "\u3000", "\u2003", "\v", "\f", "\u2028", "\x85")
_CONTROLS = "".join(map(chr, (*range(1, 32), 127, *range(128, 160))))
_EMOJI = (
    "😀😃😄 👍👍🏽 ❤️ ❤ ☺️ ☎ ©️®™",
    "👩\u200d👩\u200d👧\u200d👦 👨\u200d💻 🏳️\u200d🌈 👩🏽\u200d🚀",
    "🇩🇪🇫🇷🇯🇵 1️⃣2️⃣ #️⃣ 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "text😀text 😀 text\n😀\n",
)
_COMBINING = (
    "e\u0301 n\u0303 a\u030a\u0323 o\u0308\u0304 é ñ Å",
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033da\u0334l\u0336g\u031bo\u0337",
    "\u0301alone \u0308 \u20dd",
    "ﬁ ﬂ ﬀ ㎏ ℡ Ａｂｃ １２３ ｶﾞ \u1e9b\u0323 \u212b \u2126",
    "क्\u200dष क्\u200cष \u0995\u09cd\u09b7 \u0e01\u0e33 \u1100\u1161\u11a8",
)
_RIGHT_TO_LEFT = (
    "שלום עולם, מה שלומך? 123",
    "مرحبا بالعالم، كيف الحال؟ ١٢٣",
    "سلام دنیا می\u200cخواهم ۱۲۳",
    "\u202bעברית\u202c abc \u200fאבג\u200e",
    "בְּרֵאשִׁית בָּרָא אֱלֹהִים بِسْمِ ٱللَّهِ",
)


@cache
def corpus() -> tuple[Sample, ...]:
    """The texts that belong to no one vocabulary."""
    return tuple(_all())


def of_vocabulary(specials: Sequence[str]) -> tuple[Sample, ...]:
    """Texts with special tokens of a vocabulary: alone, in prose, side by side, as chat turns.

    Args:
        specials: their texts; the first hundred are taken.
    """
    some = list(dict.fromkeys(s for s in specials if s.strip()))[:100]
    out = []
    for s in some:
        out += [Sample("special tokens", t) for t in (s, f"a{s}b", f"a {s} b", f"{s}\n{s} {s}{s}", s[:-1])]
    for open_, close in pairwise(some):
        out.append(Sample("chat turns", f"{open_}user\nHello, it's 2024!{close}\n{open_}assistant\n\n Hi. {close}"))
    return tuple(out)


def _all() -> Iterator[Sample]:
    for kind, texts in (
        ("prose", _PROSE),
        ("other scripts", _SCRIPTS),
        ("code", _CODE),
        ("numbers", _NUMBERS),
        ("emoji", _EMOJI),
        ("combining marks", _COMBINING),
        ("right to left", _RIGHT_TO_LEFT),
    ):
        for text in texts:
            yield from (Sample(kind, t) for t in (text, f" {text}", f"{text} ", f"{text}\n{text}"))
    yield Sample("empty", "")
    for kind, marks in (("whitespace", _BLANKS), ("odd blanks", _ODD_BLANKS)):
        for mark in marks:
            for run in (mark * n for n in (1, 2, 3, 4, 7, 8, 15, 16, 17, 33)):
                texts = (run, f"a{run}b", f"{run}a", f"a{run}", f"a{run}\nb", f"1{run}2")
                yield from (Sample(kind, text) for text in texts)
            yield from (Sample(kind, f"x{mark}{other}y {mark} {other}!") for other in (*_BLANKS, *marks))
    for n in range(1, 16):
        yield Sample("numbers", "7" * n)
        yield Sample("numbers", f"a{'12345678901234567890'[:n]}b")
        yield Sample("punctuation", "!" * n + "a" + "." * n + "\n" + "-" * n)
    for sign in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~":
        yield from (
            Sample("punctuation", t) for t in (f"a{sign}b", f"a {sign}b", f"{sign}{sign}{sign} a", f" {sign}\n")
        )
    for sign in _CONTROLS:
        yield Sample("control characters", f"a{sign}b {sign} c")
    for word in ("a", "ab", "Donaudampfschifffahrt", "ACGT", "漢", "é", "0x"):
        yield Sample("long words", (word * 600)[:600])
    for start in range(0x80, 0x30000, STEP):
        chars = [c for c in map(chr, range(start, start + STEP)) if _kept(c)]
        if not chars or (0x3400 <= start < 0xD800 and start % (STEP * 16)):
            # Of the long ranges of ideographs and of Hangul one block in sixteen speaks for the others.
            continue
        kind = f"unicode: U+{start & ~0xFF:04X}"
        yield Sample(kind, "".join(chars))
        yield Sample(kind, " ".join(chars))
        yield Sample(kind, "".join(f"a{c}1{c} " for c in chars[:: max(1, len(chars) // 32)]))


def _kept(char: str) -> bool:
    old = _OLD.category(char)
    return old not in ("Cn", "Cs", "Co") and old == unicodedata.category(char)
