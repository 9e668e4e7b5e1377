"""What people type where a path is wanted: each form gets the way that works."""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool.elsewhere import meant

TYPED = [
    ("file:///models/my%20model.gguf", "name the file itself: '/models/my model.gguf'"),
    ("file://localhost/m.gguf", "name the file itself: /m.gguf"),
    ("file:m.gguf", None),
    ("azure://box/m.gguf", "write az://box/m.gguf"),
    ("docker://ai/smollm2", "docker model pull ai/smollm2"),
    ("hf:owner/repo", "write hf://owner/repo"),
    ("hf:/owner/repo:Q4_K_M", "write hf://owner/repo:Q4_K_M"),
    ("huggingface.co/owner/repo", "write hf://owner/repo"),
    ("hf.co/owner/repo:Q4_K_M", "write hf://owner/repo:Q4_K_M"),
    ("huggingface://owner/repo", "write hf://owner/repo"),
    ("git@hf.co:owner/repo.git", "write hf://owner/repo"),
    ("owner/repo:Q4_K_M", "hf://owner/repo:Q4_K_M"),
    ("ollama:llama3.2", "write ollama://llama3.2"),
    ("modelscope://owner/repo", "https://modelscope.cn/models/owner/repo/resolve/master/FILE"),
    ("C:\\models\\m.gguf", "/mnt/c/models/m.gguf"),
    ("magnet:?xt=urn:btih:1", "torrent"),
    ("models/m.gguf", None),
    ("m.gguf", None),
]


@pytest.mark.parametrize(("typed", "helps"), TYPED)
def test_what_was_meant(typed: str, helps: str | None, cli) -> None:
    found = meant(typed)
    assert found is None if helps is None else helps in (found or "")
    for command in ("dump", "lint", "fix --set general.name=x", "undo", "scan"):
        result = cli(*command.split(), typed)
        assert result.code == 2
        assert helps is None or helps in result.err + result.out


def test_what_the_shell_left_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cli) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MODELS", "/srv/models")
    assert f"without quotes it is {tmp_path}/m.gguf" in cli("dump", "~/m.gguf").err
    assert "without quotes it is /srv/models/m.gguf" in cli("dump", "$MODELS/m.gguf").err
    assert "no user of that name" in cli("dump", "~nobody-here/m.gguf").err
    assert meant("$NOT_SET/m.gguf") is None


def test_a_file_of_such_a_name_is_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cli) -> None:
    from tests.build import llama

    monkeypatch.chdir(tmp_path)
    Path("~").mkdir()
    llama().write(Path("~/m.gguf"))
    assert cli("dump", "--overview", "~/m.gguf").code == 0
