"""What is typed, and what must come of it; the same in every shell unless it says otherwise."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.build import GGUF

HOSTILE = (
    "$(touch x)",
    "`touch x`",
    "my key",
    "a:b",
    "it's",
    'say"hi',
    "bang!",
    "ünï.key",
    "back\\slash",
    "semi;touch x",
)
UNSEEN = ("new\nline", "esc\x1b[31m", "hid\u202eden")
"""Keys that no line can show."""


@dataclass(frozen=True)
class Probe:
    """One Tab.

    Attributes:
        line: what is typed.
        has: words that must be offered.
        only: all words that may be offered; None: others are fine.
        word: what the last word of the line is afterwards; "": it stays as it was typed.
        open: no blank stands behind it.
        behind: typed too, behind the cursor.
        shells: where it is tried.
    """

    line: str
    has: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    word: str | None = None
    open: bool = False
    behind: str = ""
    shells: tuple[str, ...] = ("bash", "zsh", "fish")


def one(line: str, word: str, *, open: bool = False, **more: object) -> Probe:
    """Exactly one word fits, and it is put in."""
    return Probe(line, (word,), (word,), word, open, **more)  # type: ignore[arg-type]


def none(line: str) -> Probe:
    """Nothing is offered, and nothing is said."""
    return Probe(line, only=(), word="")


def folder(to: Path) -> None:
    """What the probes find: models, names of all kinds, files that are none."""
    g = GGUF("llama").kv("general.name", "x").kv("llama.block_count", 2).kv("my.own.key", "x").kv("my.own.other", 5)
    for key in (*HOSTILE, *UNSEEN):
        g.kv(f"odd {key}" if key[0] != "m" else key, 1)
    g.kv("tokenizer.chat_template.tool_use", "x").kv("tokenizer.ggml.tokens", ["a", "<|im_end|>", "<s>", "b"])
    g.kv("tokenizer.ggml.token_type", [1, 3, 3, 1], "[i32]")
    for name in ("token_embd.weight", "blk.0.attn_q.weight", "blk.1.attn_q.weight"):
        g.tensor(name, (32,), "f32")
    data = g.bytes()
    for name in (
        "m.gguf",
        "my model.gguf",
        "p:one.gguf",
        "q'uote.gguf",
        "$(touch y).gguf",
        "ünï.gguf",
        "new\nline.gguf",
    ):
        (to / name).write_bytes(data)
    (to / "other.gguf").write_bytes(GGUF("llama").kv("other.key", 1).bytes())
    (to / "broken.gguf").write_bytes(b"GGUF\x03\0\0\0" + b"\xff" * 64)
    (to / "cut.gguf").write_bytes(data[:200])
    (to / "empty.gguf").touch()
    for name in ("notes.txt", "chat.jinja", "rules.toml", "base.json"):
        (to / name).touch()
    for name in ("sub", "sub dir"):
        (to / name).mkdir()
        (to / name / "deep.gguf").write_bytes(data)
    os.mkfifo(to / "pipe.gguf")


PROBES = (
    # Commands and options.
    one("gguftool ren", "render"),
    Probe("gguftool ", ("lint", "fix", "completion")),
    one("gguftool help ver", "verify"),
    one("gguftool show m.gguf --layo", "--layout"),
    Probe("gguftool lint --c", ("--ctx", "--cache-type", "--config"), ("--ctx", "--cache-type", "--config")),
    Probe("gguftool plan --n-gpu", ("--n-gpu-layers", "--n-gpu-layers-draft"), word="--n-gpu-layers", open=True),
    one("gguftool lint --kv-cache-t", "--kv-cache-type"),
    # An option that was given is not offered again, one that may be given again is.
    none("gguftool dump m.gguf --raw my.own.key --raw"),
    one("gguftool fix m.gguf --set a=b --set-", "--set-file"),
    Probe("gguftool lint --format js", ("json", "jsonl"), ("json", "jsonl"), "json", True),
    Probe("gguftool lint --format=sa", ("--format=sarif",), ("--format=sarif",), "--format=sarif"),
    # Rules.
    one("gguftool lint --select kv-cache-type-s", "kv-cache-type-slow"),
    one("gguftool lint --ignore=kv-cache-type-s", "--ignore=kv-cache-type-slow"),
    one("gguftool lint --select deploy,kv-cache-type-s", "deploy,kv-cache-type-slow"),
    Probe("gguftool rules templ", ("template",)),
    none("gguftool lint --select template-missing,template-missing"),
    # Keys.
    one("gguftool dump m.gguf --raw my.own.k", "my.own.key"),
    one("gguftool dump --raw my.own.k", "my.own.key", behind=" m.gguf", shells=("bash", "zsh")),
    Probe("gguftool fix m.gguf --delete my.own.", ("my.own.key", "my.own.other"), ("my.own.key", "my.own.other")),
    one("gguftool fix m.gguf --set my.own.k", "my.own.key=", open=True),
    one("gguftool fix sub --set=my.own.k", "--set=my.own.key=", open=True),
    one("gguftool fix m.gguf --rename my.own.k", "my.own.key=", open=True),
    one("gguftool fix m.gguf --from other.gguf --copy other.", "other.key"),
    one("gguftool explain general.archi", "general.architecture"),
    one("gguftool explain qwen2.context_l", "qwen2.context_length"),
    one("gguftool dump ~/m.gguf --raw my.own.k", "my.own.key"),
    one("gguftool dump 'my model.gguf' --raw my.own.k", "my.own.key"),
    one("gguftool dump my\\ model.gguf --raw my.own.k", "my.own.key"),
    one("gguftool dump -m m.gguf --keys my.own.o", "my.own.other"),
    # Values of keys.
    Probe("gguftool fix m.gguf --set llama.pooling_type=", tuple(f"llama.pooling_type={n}" for n in "01234")),
    one("gguftool fix m.gguf --set llama.rope.scaling.type=ya", "llama.rope.scaling.type=yarn"),
    one("gguftool fix m.gguf --set tokenizer.ggml.add_bos_token=t", "tokenizer.ggml.add_bos_token=true"),
    one("gguftool fix m.gguf --set general.architecture=gemma3n", "general.architecture=gemma3n"),
    one("gguftool fix m.gguf --set general.license=apache", "general.license=apache-2.0", shells=("bash", "zsh")),
    one("gguftool fix m.gguf --set my.own.flag:boo", "my.own.flag:bool=", open=True),
    one("gguftool fix m.gguf --set my.own.flag:bool=f", "my.own.flag:bool=false"),
    one("gguftool fix m.gguf --special bos='<|im", "bos=<|im_end|>", shells=("bash", "zsh")),
    one("gguftool fix m.gguf --sampling temp=0.3,top_k=40,min", "temp=0.3,top_k=40,min_p=", open=True),
    # Types, tensors, builds, conversations.
    one("gguftool lint m.gguf --cache-type q8_0/q4_1", "q8_0/q4_1"),
    one("gguftool prepare sub -ctk iq4", "iq4_nl"),
    one("gguftool kv-test m.gguf --types f16,bf", "f16,bf16"),
    one("gguftool quantize m.gguf q4_k_m", "Q4_K_M", shells=("bash", "zsh")),
    one("gguftool dump m.gguf --tensors tok", "token_embd.weight"),
    Probe("gguftool dump m.gguf --tensors blk", ("blk.0.attn_q.weight", "blk.*.attn_q.weight")),
    one("gguftool quantize m.gguf --tensor-type token", "token_embd.weight=", open=True),
    one("gguftool compat m.gguf --build b1143", "b11434", shells=("bash", "zsh")),
    one("gguftool render m.gguf --conversation thinking-l", "thinking-low"),
    one("gguftool render m.gguf --template-name to", "tool_use"),
    one("gguftool launch m.gguf --emit sy", "systemd"),
    one("gguftool plan m.gguf --split-mode te", "tensor"),
    one("gguftool launch m.gguf -- --no-kv-o", "--no-kv-offload"),
    # Files.
    one("gguftool lint othe", "other.gguf"),
    none("gguftool lint not"),
    one("gguftool lint sub/d", "sub/deep.gguf"),
    one("gguftool lint ~/sub/d", "~/sub/deep.gguf", shells=("zsh", "fish")),
    Probe("gguftool lint sub", ("sub/", "sub dir/"), ("sub/", "sub dir/")),
    one("gguftool lint --config ru", "rules.toml"),
    one("gguftool fix m.gguf --chat-template ch", "chat.jinja"),
    one("gguftool lint my", "my model.gguf"),
    one("gguftool lint my\\ mo", "my model.gguf"),
    one("gguftool lint 'my mo", "my model.gguf"),
    one('gguftool lint "my mo', "my model.gguf"),
    Probe("gguftool lint p:", ("p:one.gguf",), ("p:one.gguf",), "p:one.gguf"),
    one("gguftool lint q", "q'uote.gguf"),
    one("gguftool lint 'sub dir'/d", "sub dir/deep.gguf"),
    one("gguftool lint $HOME/sub/d", "$HOME/sub/deep.gguf", shells=("bash",)),
    one('gguftool lint "q', "q'uote.gguf"),
    one("gguftool lint '$", "$(touch y).gguf"),
    one("gguftool lint ün", "ünï.gguf"),
    none("gguftool lint new"),
    one("gguftool convert sub\\ ", "sub dir/", open=True),
    one("gguftool lint hf", "hf://", open=True),
    # Names that would do something if anybody ran them; names that no line can show.
    Probe("gguftool fix m.gguf --delete odd\\ ", tuple(f"odd {k}" for k in HOSTILE if k[0] != "m")),
    one("gguftool fix m.gguf --delete 'odd $", "odd $(touch x)"),
    one('gguftool fix m.gguf --delete "odd $', "odd $(touch x)", shells=("bash",)),
    one('gguftool fix m.gguf --delete "odd ban', "odd bang!", shells=("zsh", "fish")),
    one('gguftool fix m.gguf --delete "odd bac', "odd back\\slash"),
    one("gguftool fix m.gguf --delete odd\\ \\`", "odd `touch x`", shells=("bash", "zsh")),
    one("gguftool fix m.gguf --delete odd\\ it", "odd it's"),
    one("gguftool fix m.gguf --delete odd\\ say", 'odd say"hi'),
    one("gguftool fix m.gguf --delete odd\\ a", "odd a:b"),
    one("gguftool fix m.gguf --delete odd\\ sem", "odd semi;touch x"),
    none("gguftool fix m.gguf --delete odd\\ new"),
    none("gguftool fix m.gguf --delete odd\\ esc"),
    # What cannot be read says nothing.
    none("gguftool dump broken.gguf --raw my"),
    none("gguftool dump empty.gguf --raw my"),
    none("gguftool dump pipe.gguf --raw my"),
    none("gguftool dump none.gguf --raw my"),
    none("gguftool dump hf://owner/repo --raw my"),
    one("gguftool dump cut.gguf --raw general.n", "general.name"),
    none("gguftool upload --"),
)
