"""`gguftool fix`, `undo` and `recover` as people and programs use them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from gguftool.format.header import Header
from gguftool.format.parse import parse_bytes
from tests.build import GGUF, llama


def edited(path: Path) -> Header:
    return parse_bytes(path.read_bytes())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return llama().write(tmp_path / "m.gguf")


VALUES = [
    ("my.k:u8=255", "u8", 255),
    ("my.k:i8=-128", "i8", -128),
    ("my.k:u16=65535", "u16", 65535),
    ("my.k:i16=-5", "i16", -5),
    ("my.k:u32=0x20", "u32", 32),
    ("my.k:i32=-7", "i32", -7),
    ("my.k:u64=18446744073709551615", "u64", 2**64 - 1),
    ("my.k:i64=-9", "i64", -9),
    ("my.k:f32=1e-5", "f32", struct.unpack("f", struct.pack("f", 1e-5))[0]),
    ("my.k:f64=0.1", "f64", 0.1),
    ("my.k:bool=yes", "bool", True),
    ("my.k:str=a=b:c", "str", "a=b:c"),
    ("my.k:string=", "str", ""),
    ("my.k:[u32]=1,2,3", "arr[u32]", [1, 2, 3]),
    ("my.k:[f32]=0.5,2", "arr[f32]", [0.5, 2.0]),
    ("my.k:[bool]=true,off", "arr[bool]", [True, False]),
    ('my.k:[str]=["a,b", "c"]', "arr[str]", ["a,b", "c"]),
    ("my.k:arr[i16]=-1,1", "arr[i16]", [-1, 1]),
    ("my.k:[u8]=", "arr[u8]", []),
]


@pytest.mark.parametrize(("text", "type_name", "value"), VALUES, ids=[v[0] for v in VALUES])
def test_set_all_types(text: str, type_name: str, value: object, path: Path, cli):
    result = cli("fix", path, "--set", text)
    assert result.code == 0, result.err
    f = edited(path).get("my.k")
    assert f.type_name == type_name
    got = f.value
    assert (list(got) if isinstance(value, list) else got) == value


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("context_lenght=5", "llama.context_length"),
        ("llama.context_lenght=5", "llama.context_length"),
        ("qwen2.context_length=5", "llama.context_length"),
        ("attnetion.head_count=5", "llama.attention.head_count"),
        ("chat_template=x", "tokenizer.chat_template"),
        ("name=x", "general.name"),
        ("general.nam=x", "general.name"),
        ("eos_token_id=2", "tokenizer.ggml.eos_token_id"),
    ],
)
def test_the_key_that_was_meant_is_named(typed: str, meant: str, path: Path, cli):
    before = path.read_bytes()
    result = cli("fix", path, "--set", typed)
    assert result.code == 2
    assert f"did you mean {meant}?" in result.err
    assert path.read_bytes() == before


def test_an_unknown_key_without_a_dot_gets_the_architecture_too(path: Path, cli):
    assert cli("fix", path, "--set", "my_key:u32=7").code == 0
    assert edited(path).get("llama.my_key").value == 7
    assert edited(path).get("my_key") is None


def test_a_key_without_a_dot_that_is_there_is_meant_itself(tmp_path: Path, cli):
    path = llama().kv("bare", 1).write(tmp_path / "m.gguf")
    assert cli("fix", path, "--set", "bare=2").code == 0
    assert edited(path).get("bare").value == 2
    assert cli("fix", path, "--delete", "bare").code == 0
    assert edited(path).get("bare") is None


def test_keys_without_prefix_get_the_architecture(path: Path, cli):
    assert cli("fix", path, "--set", "context_length=512", "--set", "rope.freq_base=5e5").code == 0
    h = edited(path)
    assert h.get("llama.context_length").value == 512
    assert h.get("llama.rope.freq_base").value == 5e5
    assert h.get("context_length") is None
    assert cli("fix", path, "--delete", "rope.freq_base").code == 0
    assert edited(path).get("llama.rope.freq_base") is None


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["--set", "llama.context_length:f32=5"], 2, "is u32, not f32"),
        (["--set", "context_length=many"], 2, "whole number (u32)"),
        (["--set", "my.key=5"], 2, "type must be named"),
        (["--set", "nothing"], 2, "must be KEY=VALUE"),
        (["--delete", "no.such.key"], 2, "there is no key"),
        (["--rename", "general.name"], 2, "OLD=NEW"),
        (["--set", "tokenizer.ggml.token_type[9999999]=1"], 2, "elements 0 to"),
        (["--set-file", "general.name=/no/such/file"], 2, "no such file"),
        (["--chat-template", "/no/such/file"], 2, "no such file"),
        (["--special", "eos=<|im_end|>"], 2, "no token of this model"),
        (["--special", "nonsense=x"], 2, "NAME=TOKEN"),
        (["--sampling", "temp=hot"], 2, "a number"),
        (["--sampling", "tempp=1"], 2, "did you mean temp"),
        (["--sampling", "top_p=1.5"], 2, "from 0 to 1"),
        (["--set", "general.alignment=64"], 2, "--realign"),
        (["--realign", "48"], 2, "power of two"),
        (["--kv-cache-type", "q9"], 2, "not a cache type"),
        (["--context-length", "0"], 2, "must be from 1"),
        (["--strategy", "insert", "--context-length", "5"], 4, "nothing to insert"),
        (["--strategy", "patch", "--set", f"general.author={'x' * 999}"], 4, "cannot be patched"),
    ],
    ids=lambda v: " ".join(v)[:40] if isinstance(v, list) else None,
)
def test_mistakes_are_told(args: list[str], code: int, says: str, path: Path, cli):
    before = path.read_bytes()
    result = cli("fix", path, *args)
    assert result.code == code, result.err
    assert says in result.err
    assert "Traceback" not in result.err
    if code:
        assert path.read_bytes() == before
        failed = cli("fix", path, *args, "--format", "json")
        assert failed.json["errors"]


def test_one_element(path: Path, cli):
    assert (
        cli("fix", path, "--set", "tokenizer.ggml.token_type[5]=3", "--set", "tokenizer.ggml.tokens[6]=<|x|>").code == 0
    )
    h = edited(path)
    assert h.get("tokenizer.ggml.token_type").head(3, 4) == [6, 3, 6]
    assert h.get("tokenizer.ggml.tokens").head(1, 6) == ["<|x|>"]
    assert h.get("tokenizer.ggml.token_type").count == 291


def test_chat_template(path: Path, tmp_path: Path, cli):
    template = tmp_path / "chat.jinja"
    text = "{% for m in messages %}{{ m.content }}ä\n{% endfor %}"
    template.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert cli("fix", path, "--chat-template", template).code == 0
    assert edited(path).get("tokenizer.chat_template").value == text
    template.write_text("{% for %}")
    result = cli("fix", path, "--chat-template", template)
    assert result.code == 0
    assert "Jinja cannot parse" in result.err
    template.write_bytes(b"\xff\xfe")
    assert cli("fix", path, "--chat-template", template).code == 2
    template.write_text("")
    assert cli("fix", path, "--chat-template", template).code == 2


def test_set_file(path: Path, tmp_path: Path, cli):
    (tmp_path / "words").write_text("one\ntwo\n")
    (tmp_path / "raw").write_bytes(b"\x00\x01\xff")
    (tmp_path / "note").write_text("line 1\nline 2\n")
    args = ["--set-file", f"my.words:[str]={tmp_path / 'words'}", "--set-file", f"my.raw:[u8]={tmp_path / 'raw'}"]
    assert cli("fix", path, *args, "--set-file", f"general.description={tmp_path / 'note'}").code == 0
    h = edited(path)
    assert h.get("my.words").value == ["one", "two"]
    assert list(h.get("my.raw").value) == [0, 1, 255]
    assert h.get("general.description").value == "line 1\nline 2\n"


def test_special_tokens(tmp_path: Path, cli):
    g = llama().replace("tokenizer.ggml.tokens", ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "word"])
    g.replace("tokenizer.ggml.token_type", [2, 3, 3, 3, 3, 1], "[i32]")
    path = g.write(tmp_path / "m.gguf")
    assert cli("fix", path, "--special", "eos=<|im_end|>", "--special", "pad=</s>").code == 0
    h = edited(path)
    assert h.get("tokenizer.ggml.eos_token_id").value == 4
    assert h.get("tokenizer.ggml.padding_token_id").value == 2
    near = cli("fix", path, "--special", "eot=<|im_endd|>")
    assert near.code == 2
    assert "<|im_end|>" in near.err
    normal = cli("fix", path, "--special", "eot=word")
    assert normal.code == 0
    assert "tokenizer.ggml.token_type[5]=3" in normal.err
    assert cli("fix", path, "--special", "eom=3").code == 0
    assert edited(path).get("tokenizer.ggml.eom_token_id").value == 3


def test_sampling(path: Path, cli):
    assert cli("fix", path, "--sampling", "temp=0.3,top_p=0.9,top_k=40,repeat_penalty=1.1").code == 0
    h = edited(path)
    got = {f.key.rpartition(".")[2]: (f.type_name, f.value) for f in h.fields if f.key.startswith("general.sampling.")}
    assert got["top_k"] == ("i32", 40)
    assert got["temp"][0] == "f32"
    assert got["temp"][1] == pytest.approx(0.3)
    assert set(got) == {"temp", "top_p", "top_k", "penalty_repeat"}


def test_dry_run_writes_nothing(path: Path, tmp_path: Path, cli):
    before, when = path.read_bytes(), path.stat().st_mtime_ns
    result = cli("fix", path, "--context-length", "512", "--set", "general.author=me", "--dry-run")
    assert result.code == 0
    for word in ("llama.context_length", "2048", "512", "read by llama.cpp", "(absent)", "writes", "needs"):
        assert word in result.out
    assert "nothing was written" in result.err
    body = cli("fix", path, "--context-length", "512", "-n", "--format", "json").json
    assert (body["done"], body["strategy"], body["undo"]) == (False, "patch", None)
    assert body["changes"] == [
        {
            "key": "llama.context_length",
            "old": 2048,
            "new": 512,
            "type": "u32",
            "old_type": "u32",
            "read_by": "llama.cpp",
        }
    ]
    assert body["bytes_written"] > 0
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, when)
    assert list(tmp_path.iterdir()) == [path]


def test_the_plan_says_what_is_done(path: Path, cli):
    for args in (["--set", f"general.author={'a' * 500}"], ["--context-length", "5"], ["--realign", "64"]):
        plan = cli("fix", path, *args, "--dry-run", "--format", "json").json
        done = cli("fix", path, *args, "--format", "json").json
        assert done["done"] is True
        assert Path(done["undo"]).exists()
        for key in ("strategy", "changes", "bytes_written", "new_size"):
            assert plan[key] == done[key]
        assert path.stat().st_size == done["new_size"]


def test_what_is_so_already_is_not_written(path: Path, cli):
    when = path.stat().st_mtime_ns
    result = cli("fix", path, "--context-length", "2048")
    assert result.code == 0
    assert "nothing to change" in result.out
    assert path.stat().st_mtime_ns == when
    assert not path.with_name("m.gguf-undo-1").exists()


def test_without_a_change_it_shows_what_auto_would_do(path: Path, cli):
    before = path.read_bytes()
    shown = cli("fix", path)
    assert shown.code == 0
    assert "No change was asked for" in shown.out
    assert path.read_bytes() == before
    assert cli("fix", path, "--auto").code == 0
    h = edited(path)
    assert h.get("llama.kv_cache_type").value == "f16"
    assert h.get("llama.rope.freq_scale").value == 1.0
    again = cli("fix", path, "--auto")
    assert "nothing to change" in again.out


def test_undo_tells_and_lists(path: Path, cli):
    before = path.read_bytes()
    assert cli("fix", path, "--context-length", "512").code == 0
    assert cli("fix", path, "--set", "general.author=me").code == 0
    listed = cli("undo", path, "--list")
    assert "general.author" in listed.out
    assert "llama.context_length" in listed.out
    records = cli("undo", path, "--list", "--format", "json").json
    assert [r["number"] for r in records["records"]] == [2, 1]
    assert cli("undo", path, "--format", "json").json["left"] == 1
    done = cli("undo", path)
    assert "llama.context_length" in done.out
    assert path.read_bytes() == before
    nothing = cli("undo", path)
    assert nothing.code == 4
    assert "no edit to undo" in nothing.err


def test_five_undo_records_are_kept_and_all_edits_can_be_undone(path: Path, cli):
    raws = []
    for i in range(8):
        raws.append(path.read_bytes())
        assert cli("fix", path, "--context-length", str(100 + i)).code == 0
    left = sorted(p.name for p in path.parent.iterdir() if "undo" in p.name)
    assert left == [f"m.gguf-undo-{n}" for n in (4, 5, 6, 7, 8)]
    assert cli("undo", path, "--all").code == 0
    assert path.read_bytes() == raws[0]
    assert [p.name for p in path.parent.iterdir()] == ["m.gguf"]


def test_no_undo(path: Path, cli):
    result = cli("fix", path, "--context-length", "5", "--no-undo")
    assert "no undo record" in result.out
    assert [p.name for p in path.parent.iterdir()] == ["m.gguf"]


def test_recover_when_nothing_is_wrong(path: Path, cli):
    assert cli("recover", path).code == 0
    assert cli("recover", path, "--format", "json").json["state"] == "CLEAN"


def test_hostile_names_cannot_drive_the_terminal(tmp_path: Path, cli):
    g = llama().kv("evil\x1b[2Jkey", "val\x1b]0;x\x07ue")
    path = g.write(tmp_path / "m.gguf")
    result = cli("fix", path, "--set", "evil\x1b[2Jkey=new\x1b[31m", "--set", "general.name=\x1b[2J", "--dry-run")
    assert result.code == 0, result.err
    assert "\x1b" not in result.out + result.err
    result = cli("fix", path, "--delete", "evil\x1b[2Jkey")
    assert "\x1b" not in result.out + result.err
    assert "\x1b" not in cli("undo", path).out


def test_an_empty_wish_is_a_wish(path: Path, cli):
    assert cli("fix", path, "--rope-freq-scale", "0").code == 2
    assert "No change was asked for" not in cli("fix", path, "--reserve", "0").out


def test_a_folder_that_holds_one_model(tmp_path: Path, cli):
    path = llama().write(tmp_path / "m.gguf")
    assert cli("fix", tmp_path, "--context-length", "7").code == 0
    assert edited(path).get("llama.context_length").value == 7
    assert cli("undo", tmp_path).code == 0


def test_remote_models_are_not_edited(cli):
    assert cli("fix", "hf://a/b/c.gguf", "--context-length", "5").code == 2


def test_a_file_that_breaks_off_is_refused(tmp_path: Path, cli):
    path = llama().truncate(200).write(tmp_path / "m.gguf")
    before = path.read_bytes()
    result = cli("fix", path, "--set", "general.author=me")
    assert result.code == 3
    assert path.read_bytes() == before


def test_an_unknown_value_type_is_refused_with_its_name(tmp_path: Path, cli):
    g = GGUF("llama").kv("general.name", "x").kv("llama.context_length", 5)
    record = g.string("from.the.future") + struct.pack("<I", 77) + b"\1\2\3\4"
    # A gap between the tensors takes away the evidence by which the length could be found.
    g.raw_kv(record).kv("last.key", 1, "u8").tensor("t", (4,)).tensor("u", (4,)).gap("u", 32)
    path = g.trailing(bytes(64)).write(tmp_path / "m.gguf")
    before = path.read_bytes()
    result = cli("fix", path, "--context-length", "4")
    assert result.code == 3
    assert "from.the.future" in result.err
    assert path.read_bytes() == before


def test_wrong_alignment_key_can_be_repaired(tmp_path: Path, cli):
    path = llama().kv("general.alignment", 32, "i32").write(tmp_path / "m.gguf")
    result = cli("fix", path, "--set", "general.alignment=32")
    assert result.code == 0, result.err
    assert edited(path).get("general.alignment").type_name == "u32"


def test_the_command_that_does_what_was_shown_is_whole(path: Path, tmp_path: Path, cli):
    result = cli("fix", path, "--output", tmp_path / "other.gguf")
    assert result.code == 0
    assert f"to do it: gguftool fix {path} --auto --output {tmp_path / 'other.gguf'}" in result.err


def test_in_a_store_the_command_names_a_copy(tmp_path: Path, cli):
    blobs = tmp_path / "models--a--b" / "snapshots" / "c"
    blobs.mkdir(parents=True)
    path = llama().write(blobs / "m.gguf")
    result = cli("fix", path)
    assert result.code == 0
    assert f"gguftool fix {path} --auto --output NEW.gguf" in result.err


def test_what_is_not_here_names_the_way(cli):
    result = cli("fix", "hf://a/b/c.gguf", "--auto")
    assert result.code == 2
    assert "hint: fetch it first: gguftool pull hf://a/b/c.gguf" in result.err


def test_what_repacking_leaves_out_is_said(tmp_path: Path, cli):
    path = llama().trailing(b"x" * 1000).write(tmp_path / "m.gguf")
    before = path.read_bytes()
    shown = cli("fix", path, "--repack", "--dry-run", "--format", "json").json
    assert any("1,000 bytes behind the last tensor" in note for note in shown["notes"])
    assert cli("fix", path, "--repack").code == 0
    assert path.stat().st_size == len(before) - 1000
    assert cli("undo", path).code == 0
    assert path.read_bytes() == before
    gap = llama().gap("blk.0.attn_q.weight", 32).write(tmp_path / "gap.gguf")
    assert cli("fix", gap, "--repack", "--dry-run", "--format", "json").json["notes"] == []


@pytest.mark.parametrize("size", ["9223372036854775807", "99999999999999999999", "1000T", "128M"])
def test_room_that_no_header_has(cli, tmp_path: Path, size: str):
    """Found by fuzzing: a number that no C integer holds."""
    path = llama().write(tmp_path / "m.gguf")
    before = path.read_bytes()
    assert cli("fix", path, "--reserve", size).code == 2
    assert path.read_bytes() == before
