"""`fix --patch-out` and `fix --patch`: an edit made of a header far away, applied where the data lies."""

from __future__ import annotations

import json
import os
import random
import shlex
from pathlib import Path

import pytest

import gguftool
from gguftool.edit.patch import is_patch, pack, read_patch
from tests.build import GGUF, llama
from tests.hub.server import Site
from tests.verify.sets import pieces, typed, write

REPO = "owner/repo"


def published(site: Site, **files: bytes) -> None:
    site.repos[REPO] = {f"{name}.gguf": data for name, data in files.items()}


def big(tokens: int = 30_000) -> GGUF:
    """A header of more than the first range, and more data than that."""
    g = llama(tokens=tokens)
    return g.tensor("more.weight", (256, 4000), "f32")


def test_a_key_of_a_file_on_the_hub(cli, site: Site, tmp_path: Path):
    g = big().kv("general.license", "apache-2.0")
    whole = g.bytes()
    published(site, m=whole)
    patch = tmp_path / "p.json"
    made = cli("fix", f"hf://{REPO}/m.gguf", "--set", "general.license=mit-licence", "--patch-out", patch)
    assert made.code == 0, made.err
    assert is_patch(patch.read_bytes())
    assert patch.stat().st_size < 4096
    # Only the header was asked for, and little of what is behind it.
    assert site.body <= 1.2 * len(g.header()) + (64 << 10) < len(whole)
    assert f"hf upload {REPO} m.gguf m.gguf" in made.out
    here = tmp_path / "there" / "m.gguf"
    here.parent.mkdir()
    here.write_bytes(whole)
    line = next(x for x in made.out.splitlines() if "--patch " in x).partition(":")[2]
    words = shlex.split(line)
    assert words[0] == "gguftool"
    done = cli(*[str(here) if w == "m.gguf" else w for w in words[1:]])
    assert done.code == 0, done.err
    with gguftool.open(here) as m:
        assert m["general.license"] == "mit-licence"
        assert len(m.tensors) == len(g._tensors)
    assert here.read_bytes()[-256 * 4000 * 4 :] == whole[-256 * 4000 * 4 :]
    assert cli("undo", here).code == 0
    assert here.read_bytes() == whole


def test_the_bytes_are_those_of_a_value_of_the_same_length(cli, tmp_path: Path):
    one, two = llama().replace("general.name", "one model"), llama().replace("general.name", "two words")
    path = one.write(tmp_path / "m.gguf")
    assert cli("fix", path, "--set", "general.name=two words", "--patch-out", tmp_path / "p").code == 0
    assert path.read_bytes() == one.bytes()
    assert cli("fix", path, "--patch", tmp_path / "p").code == 0
    assert path.read_bytes() == two.bytes()


EDITS = {
    "longer": ["--set", "general.description=" + "x" * 3000],
    "goes": ["--delete", "general.name"],
    "renamed": ["--rename", "general.name=general.basename"],
    "room": ["--reserve", "100K"],
    "no room": ["--strip-padding"],
    "element": ["--set", "tokenizer.ggml.tokens[5]=five"],
    "several": ["--context-length", "1024", "--cache-type", "f16", "--set", "a.b:u8=1"],
}
FORMS = {
    "plain": lambda: llama(),
    "big-endian": lambda: llama().big_endian(),
    "version 2": lambda: llama().version(2),
    "odd": lambda: llama().kv("x.y", 3, "u16").trailing(b"left over"),
    "aligned": lambda: llama().align(4096),
    "padded": lambda: llama().kv("gguftool.pad", "x" * 900),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("edit", EDITS)
def test_as_the_edit_where_the_file_lies(cli, tmp_path: Path, form: str, edit: str):
    """Twice the same bytes: by the patch, and by the command itself; and `undo` gives the old ones."""
    g = FORMS[form]().replace("general.name", "some model")
    data = g.bytes()
    there, direct, patched = (tmp_path / n for n in ("far.gguf", "direct.gguf", "patched.gguf"))
    for path in (there, direct, patched):
        path.write_bytes(data)
    assert cli("fix", there, *EDITS[edit], "--patch-out", tmp_path / "p").code == 0
    assert there.read_bytes() == data
    assert cli("fix", direct, *EDITS[edit]).code == 0
    done = cli("fix", patched, "--patch", tmp_path / "p")
    if direct.read_bytes() == data:
        assert done.code in (0, 4)
        return
    assert done.code == 0, done.err
    assert patched.read_bytes() == direct.read_bytes()
    assert cli("undo", patched).code == 0
    assert patched.read_bytes() == data


def test_the_first_of_a_set(cli, site: Site, tmp_path: Path):
    names = write(pieces(typed("q8_0"), [20, 40]), tmp_path)
    site.repos[REPO] = {p.name: p.read_bytes() for p in names}
    spec = f"hf://{REPO}/{names[1].name}"
    before = [p.read_bytes() for p in names]
    made = cli("fix", spec, "--set", "general.name=Of a set", "--patch-out", tmp_path / "p")
    assert made.code == 0, made.err
    assert f"hf upload {REPO} {names[0].name} {names[0].name}" in made.out
    done = cli("fix", names[2], "--patch", tmp_path / "p")
    assert done.code == 0, done.err
    with gguftool.open(names[0]) as m:
        assert m["general.name"] == "Of a set"
    assert [p.read_bytes() for p in names[1:]] == before[1:]


def test_another_file_is_left_alone(cli, tmp_path: Path):
    a = llama().replace("general.name", "a").write(tmp_path / "a.gguf")
    patch = tmp_path / "p"
    assert cli("fix", a, "--set", "general.name=b", "--patch-out", patch).code == 0
    others = {
        "another header": llama().replace("general.name", "c").bytes(),
        "another size": a.read_bytes() + b"x",
        "cut": a.read_bytes()[:-32],
    }
    for what, data in others.items():
        other = tmp_path / "other.gguf"
        other.write_bytes(data)
        done = cli("fix", other, "--patch", patch)
        assert done.code == 4, what
        assert "is not the file the patch was made for" in done.err
        assert other.read_bytes() == data
    assert cli("fix", a, "--patch", patch).code == 0
    again = cli("fix", a, "--patch", patch)
    assert again.code == 4
    assert "has this edit already" in again.err


def test_what_our_prediction_denies_makes_no_patch(cli, tmp_path: Path):
    a = llama().write(tmp_path / "a.gguf")
    words = ("fix", a, "--set", "llama.attention.head_count=7", "--patch-out", tmp_path / "p")
    refused = cli(*words)
    assert refused.code == 4
    assert not (tmp_path / "p").exists()
    assert cli(*words, "--yes").code == 0
    # Nor is one applied: it may come from anywhere.
    assert cli("fix", a, "--patch", tmp_path / "p").code == 4
    assert cli("fix", a, "--patch", tmp_path / "p", "--yes").code == 0


def test_what_is_no_patch(cli, tmp_path: Path):
    a = llama().write(tmp_path / "a.gguf")
    assert cli("fix", a, "--patch-out", tmp_path / "p").code == 2
    assert cli("fix", a, "--set", "a.b:u8=1", "--realign", "64", "--patch-out", tmp_path / "p").code == 2
    assert cli("fix", a, "--set", "a.b:u8=1", "--strategy", "rewrite", "--patch-out", tmp_path / "p").code == 2
    assert cli("fix", a, "--patch", a).code == 2
    (tmp_path / "mine").write_text("my own")
    assert cli("fix", a, "--set", "a.b:u8=1", "--patch-out", tmp_path / "mine").code == 4
    assert (tmp_path / "mine").read_text() == "my own"
    assert cli("fix", a, "--set", "a.b:u8=1", "--patch-out", tmp_path / "p").code == 0
    mixed = cli("fix", a, "--set", "a.c:u8=1", "--patch", tmp_path / "p")
    assert mixed.code == 2


def test_a_hostile_patch_changes_nothing(cli, tmp_path: Path):
    a = llama().replace("general.name", "a").write(tmp_path / "a.gguf")
    data = a.read_bytes()
    patch = tmp_path / "p"
    assert cli("fix", a, "--set", "general.name=b", "--patch-out", patch).code == 0
    good = json.loads(patch.read_text())
    odd = [-1, 1 << 70, 1e999, "x", None, [], {}, True, "A" * 99, [[1]]]
    rng = random.Random(17)

    def places(value: object, at: tuple = ()) -> list[tuple]:
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        return (
            [at, *(p for k, v in inner for p in places(v, (*at, k)))]
            if at
            else [p for k, v in inner for p in places(v, (k,))]
        )

    for place in places(good):
        body = json.loads(json.dumps(good))
        spot = body
        for step in place[:-1]:
            spot = spot[step]
        spot[place[-1]] = rng.choice(odd)
        text = json.dumps(body)
        patch.write_text(text)
        done = cli("fix", a, "--patch", patch)
        words = place[0] in ("made_of", "operations", "version")
        assert done.code in ((0, 3, 4) if words else (2, 3, 4)), (place, done.err)
        if done.code == 0:
            assert cli("undo", a).code == 0
        assert a.read_bytes() == data
    whole = json.dumps(good).encode()
    for cut in range(0, len(whole), 97):
        patch.write_bytes(whole[:cut])
        assert cli("fix", a, "--patch", patch).code in (2, 3)
        assert a.read_bytes() == data


def test_its_file_is_read_as_it_was_written(cli, tmp_path: Path):
    a = llama().write(tmp_path / "a.gguf")
    assert cli("fix", a, "--set", "general.name=\x1b[31mred", "--patch-out", tmp_path / "p").code == 0
    assert b"\x1b" not in (tmp_path / "p").read_bytes()
    assert pack(read_patch(str(tmp_path / "p"))) == (tmp_path / "p").read_bytes()


def test_json(cli, tmp_path: Path, site: Site):
    published(site, m=llama().bytes())
    spec = f"hf://{REPO}/m.gguf"
    out = cli("fix", spec, "--set", "general.name=b", "--patch-out", tmp_path / "p", "--format", "json").json
    assert out["ok"] is True
    assert out["patch"] == str(tmp_path / "p")
    assert [c["key"] for c in out["changes"]] == ["general.name"]
    assert out["size"] == len(llama().bytes())
    dry = cli("fix", spec, "--set", "general.name=b", "--patch-out", tmp_path / "q", "-n", "--format", "json").json
    assert dry["patch"] is None
    assert not (tmp_path / "q").exists()


@pytest.mark.oracle
def test_what_an_upload_sends_is_no_more_than_is_said(cli, tmp_path: Path):
    """Measured by hf-xet itself, into a store in a folder: the old file, then the new one."""
    pytest.importorskip("hf_xet")
    rng = random.Random(3)
    g = llama(tokens=20_000)
    for i in range(6):
        g.tensor(f"noise.{i}.weight", (256, 1000), "f32")
    data = bytearray(g.bytes())
    data[-6_000_000:] = rng.randbytes(6_000_000)
    a = tmp_path / "a.gguf"
    a.write_bytes(data)
    edits = [
        ["--set", "general.name=other"],
        ["--set", "tokenizer.ggml.tokens[10000]=changed"],
        ["--set", "general.name=other", "--set", "tokenizer.ggml.tokens[19000]=also changed"],
        ["--reserve", "300K"],
    ]
    script = (
        "import hf_xet, sys\n"
        "for p in sys.argv[2:]:\n"
        "    c = hf_xet.XetSession().new_upload_commit(endpoint='local://' + sys.argv[1])\n"
        "    c.start_upload_file(p)\n"
        "    print(c.wait_to_finish().dedup_metrics.new_bytes)\n"
    )
    said = []
    news = [a]
    for i, words in enumerate(edits):
        patch, b = tmp_path / f"p{i}", tmp_path / f"b{i}.gguf"
        b.write_bytes(data)
        assert cli("fix", a, *words, "--patch-out", patch).code == 0
        said.append(read_patch(str(patch)).news)
        assert cli("fix", b, "--patch", patch).code == 0
        news.append(b)
    for b, most in zip(news[1:], said, strict=True):
        # A store of its own for each, so that no edit profits from another.
        store = tmp_path / f"store-{b.name}"
        store.mkdir()
        import subprocess
        import sys

        done = subprocess.run(
            [sys.executable, "-c", script, str(store), str(a), str(b)],
            env={**os.environ, "HF_XET_CACHE": str(store / "cache"), "HF_HOME": str(store)},
            capture_output=True, text=True, timeout=300, check=True,
        )  # fmt: skip
        first, second = (int(x) for x in done.stdout.split())
        assert first > 4_000_000
        assert 0 < second <= most, b.name
