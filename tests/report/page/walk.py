"""Pages of files of every role and every fault that the tests know: ``python -m tests.report.page.walk`` takes all."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import gguftool
from gguftool.errors import GgufToolError, NotGguf
from gguftool.report.page.data import body
from tests import beside, projectors
from tests.build import GGUF
from tests.json_schemas import validator
from tests.lint import badfiles
from tests.report.page.test_hostile import check

ROLES = {
    "projector": lambda: projectors.both().gguf(),
    "control vector": beside.control_vector,
    "adapter": lambda: beside.lora(("blk.0.attn_q", 64, 64)),
    "importance matrix": lambda: beside.imatrix(beside.measured()),
    "vocabulary": lambda: GGUF("llama").kv("tokenizer.ggml.model", "gpt2").kv("tokenizer.ggml.tokens", ["a", "b"]),
    "nothing": GGUF,
    "a type nobody knows": lambda: GGUF("llama").tensor("token_embd.weight", (32, 4), 99),
}


def files(few: int | None = None) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each; of those with faults only some."""
    yield from ((name, make().bytes()) for name, make in ROLES.items())
    faulty = sorted(badfiles.files().items())
    yield from faulty if few is None else random.Random(18).sample(faulty, few)


def samples() -> Iterator[tuple[str, bytes]]:
    """What makes each rule of lint fire."""
    from tests.lint.samples import all_samples

    yield from ((s.rule, s.fires.bytes()) for s in all_samples() if isinstance(s.fires, GGUF))


def walk(name: str, data: bytes, folder: Path) -> bool:
    """One file: its page is safe, its JSON fits the schema, and no section failed; False where it is no GGUF at all."""
    path = folder / "m.gguf"
    path.write_bytes(data)
    try:
        found = gguftool.report(path, ram="4GiB")
    except NotGguf:
        return False
    assert found.model is not None, name
    assert found.model.failed == {}, name
    check(gguftool.report_page(found))
    head = {"format": "gguftool.report/1", "tool": {"name": "gguftool", "version": "0"}, "ok": True, "errors": []}
    validator("report").validate(json.loads(json.dumps({**head, "written": None, **body(found)})))
    return True


def main() -> None:
    done = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (*files(), *samples()):
            try:
                done += walk(name, data, Path(folder))
            except GgufToolError as error:
                print(name, error)
    print(done, "pages")


if __name__ == "__main__":
    main()
