"""gguftool: inspect, check, repair, plan and launch GGUF models.

Everything the command line can do is one public function here; nothing is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gguftool.version import __version__

if TYPE_CHECKING:
    from gguftool.build.convert import convert
    from gguftool.build.quantize import quantize
    from gguftool.edit.ops import Dedupe, Delete, Realign, Rename, Repack, Reserve, Set, SetElement, Strip
    from gguftool.edit.plan import plan_edit
    from gguftool.edit.recover import recover
    from gguftool.edit.session import edit
    from gguftool.edit.undo import undo
    from gguftool.hub import open_any as open
    from gguftool.lint.call import lint
    from gguftool.lint.explain import explain
    from gguftool.lint.rules import catalogue as rules
    from gguftool.memory.plan import memory
    from gguftool.model.compare import compare as diff
    from gguftool.run.diagnose import explain_text as explain_error
    from gguftool.run.diagnose import judge as judge_log
    from gguftool.run.doctor import examine
    from gguftool.run.flags import explain_flag
    from gguftool.run.kvtest import kv_test
    from gguftool.run.launch import plan_launch
    from gguftool.run.translate import translate
    from gguftool.verify.call import merge, split, verify
    from gguftool.verify.hashes import hash_file

# Public name -> "module:attribute"; resolved on first use, so that `import gguftool` costs nothing.
_PUBLIC = {
    "convert": "gguftool.build.convert:convert",
    "quantize": "gguftool.build.quantize:quantize",
    "memory": "gguftool.memory.plan:memory",
    "edit": "gguftool.edit.session:edit",
    "plan_edit": "gguftool.edit.plan:plan_edit",
    "recover": "gguftool.edit.recover:recover",
    **{
        name: f"gguftool.edit.ops:{name}"
        for name in ("Set", "SetElement", "Delete", "Rename", "Dedupe", "Repack", "Realign", "Reserve", "Strip")
    },
    "diff": "gguftool.model.compare:compare",
    "lint": "gguftool.lint.call:lint",
    "rules": "gguftool.lint.rules:catalogue",
    "explain": "gguftool.lint.explain:explain",
    "undo": "gguftool.edit.undo:undo",
    "open": "gguftool.hub:open_any",
    "verify": "gguftool.verify.call:verify",
    "hash_file": "gguftool.verify.hashes:hash_file",
    "split": "gguftool.verify.call:split",
    "merge": "gguftool.verify.call:merge",
    "plan_launch": "gguftool.run.launch:plan_launch",
    "judge_log": "gguftool.run.diagnose:judge",
    "explain_error": "gguftool.run.diagnose:explain_text",
    "explain_flag": "gguftool.run.flags:explain_flag",
    "translate": "gguftool.run.translate:translate",
    "examine": "gguftool.run.doctor:examine",
    "kv_test": "gguftool.run.kvtest:kv_test",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    try:
        module, _, attribute = _PUBLIC[name].partition(":")
    except KeyError:
        raise AttributeError(f"module 'gguftool' has no attribute {name!r}") from None
    from importlib import import_module

    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
