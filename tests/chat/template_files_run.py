"""Which template transformers and the converter take of a folder with several; started by the converter's Python.

    python template_files_run.py SOURCE FOLDER OUT.json

FOLDER is a model folder with a byte-level tokenizer. Every combination of the files that may hold a template is made of
it; recorded are the default template of `AutoTokenizer`, that of the processor where there is one, and what
`gguf.SpecialVocab` writes. `tests/data/chat/template_files.json` is what it wrote (b11434, transformers 5.24).
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

CONFIGS: dict[str, Any] = {
    "none": "no file",
    "without": {},
    "null": {"chat_template": None},
    "text": {"chat_template": "[CONFIG]"},
    "named": {
        "chat_template": [{"name": "tool_use", "template": "[TOOLS]"}, {"name": "default", "template": "[NAMED]"}]
    },
    "tools": {"chat_template": [{"name": "tool_use", "template": "[TOOLS]"}]},
}
FILES: dict[str, dict[str, str]] = {
    "jinja": {"chat_template.jinja": "[JINJA]"},
    "legacy": {"chat_template.json": json.dumps({"chat_template": "[LEGACY]"})},
    "additional": {"additional_chat_templates/rag.jinja": "[RAG]"},
    "processor": {"preprocessor_config.json": json.dumps({"processor_class": "X"})},
}


def main() -> None:
    """Run it."""
    source, base, out = map(Path, sys.argv[1:4])
    sys.path[:0] = [str(source / "gguf-py"), str(source)]
    import gguf
    from transformers import AutoTokenizer, ProcessorMixin

    rows = []
    kinds = [k for n in range(len(FILES) + 1) for k in itertools.combinations(FILES, n)]
    for config, files in itertools.product(CONFIGS, kinds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for file in ("config.json", "tokenizer.json"):
                shutil.copy(base / file, folder / file)
            if config != "none":
                said = {"tokenizer_class": "PreTrainedTokenizerFast", **CONFIGS[config]}
                (folder / "tokenizer_config.json").write_text(json.dumps(said))
            for kind in files:
                for path, text in FILES[kind].items():
                    (folder / path).parent.mkdir(exist_ok=True)
                    (folder / path).write_text(text)
            rows.append(
                {
                    "config": config,
                    "files": files,
                    "tokenizer": _default(lambda f=folder: AutoTokenizer.from_pretrained(f).chat_template),
                    "processor": _default(lambda f=folder: _of_processor(ProcessorMixin, f)),
                    "converter": _default(lambda f=folder: gguf.SpecialVocab(f).chat_template),
                }
            )
    out.write_text(json.dumps(rows, indent=0))


def _of_processor(mixin: Any, folder: Path) -> Any:
    return mixin.get_processor_dict(folder)[0].get("chat_template")


def _default(ask: Any) -> Any:
    try:
        found = ask()
    except Exception as e:
        return f"!{type(e).__name__}"
    if isinstance(found, list):
        found = {row["name"]: row["template"] for row in found}
    return found.get("default") if isinstance(found, dict) else found


if __name__ == "__main__":
    main()
