"""`conversions.json`: which keys the official converter writes for each model class, under which condition, from what.

`set_gguf_parameters` of every class, and what it writes beside tensors of its own, is executed with names in place of
values: what comes out are rows
``[key, type, value, condition]`` in the order of the writes, value and condition as expressions of Python over

    config    the configuration of the language model, as `config.json` has it
    rope      `rope_parameters` or `rope_scaling` of it, completed as `conversion/base.py:TextModel` does
    layers    the number of layers that the converter writes
    unknown   anything that the files of the model do not tell by a name

`first('a', 'b')` is the first of these names that is there, None without any; `need` the same, and it must be there.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from pyclasses import METHOD, Class, Write, architectures, classes, enumerations, lineage, writer
from pyvalues import FALSE, UNKNOWN, Env, Values, conj, negated, truth

STRUCTURE = re.compile(
    r"(?:vocab_size|block_count|context_length|embedding_length\w*|(?:expert_)?\w*feed_forward_length|block_size"
    r"|expert_(?:shared_)?count|attention\.head_count(?:_kv)?|attention\.(?:key|value)_length\w*"
    r"|(?:attention\.)?\w*lora_rank|nextn_predict_layers|leading_dense_block_count|attention\.compress_ratios"
    r"|tensor_data_layout|pooling_type|classifier\.pooling_type)$"
)
"""Sizes, which the tensors contradict when they are lost, and keys that a rule of their own asks for: left out."""
BASE = ("ModelBase", "TextModel", "Model")
"""Classes whose beginning `gguftool/facts/conversion.py` repeats."""
MOST = 12
"""Calls inside calls."""


class Run(Values):
    """Executes the method of one class for one architecture."""

    def __init__(
        self, known: dict[str, Class], writes: dict[str, Write], enums: dict[str, ast.expr], name: str
    ) -> None:
        super().__init__(known, enums, lineage(name, known))
        self.writes = writes
        self.rows: list[list[Any]] = []
        self.opaque = False
        self.depth = 0

    def method(self, name: str, order: list[str], env: Env, when: list[ast.expr]) -> None:
        """The first method of that name among these classes."""
        owner = next((c for c in order if name in self.known[c].methods), None)
        if owner is None or self.depth > MOST:
            return
        self.depth += 1
        outer, self.owner = self.owner, owner
        self.block(self.known[owner].methods[name].body, env, when)
        self.owner = outer
        self.depth -= 1

    def block(self, body: list[ast.stmt], env: Env, when: list[ast.expr]) -> list[ast.expr] | None:
        """Execute statements; conditions under which they fall through, None when they never do."""
        own: list[ast.expr] = []
        for s in body:
            if isinstance(s, ast.Raise):
                return [*own, NOFILE]
            if isinstance(s, ast.Return | ast.Continue | ast.Break):
                return None
            more = self.statement(s, env, [*when, *own])
            if more is None:
                return None
            own += more
        return own

    def statement(self, s: ast.stmt, env: Env, when: list[ast.expr]) -> list[ast.expr] | None:
        if isinstance(s, ast.If):
            return self.choice(s, env, when)
        if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call):
            self.call(s.value, env, when)
        elif isinstance(s, ast.Assign | ast.AnnAssign) and s.value is not None:
            self.assign(s.targets if isinstance(s, ast.Assign) else [s.target], self.value(s.value, env), env)
        elif isinstance(s, ast.AugAssign):
            old = ast.BinOp(ast.parse(ast.unparse(s.target), mode="eval").body, s.op, s.value)
            self.assign([s.target], self.value(old, env), env)
        elif isinstance(s, ast.With):
            for item in s.items:
                self.forget([item.optional_vars] if item.optional_vars else [], env)
            return self.block(s.body, env, when)
        elif isinstance(s, ast.For | ast.While | ast.Try):
            self.forget(list(ast.walk(s)), env)
            for part in (s.body, s.orelse, *(h.body for h in getattr(s, "handlers", []))):
                self.block(part, dict(env), [*when, UNKNOWN])
            self.forget(list(ast.walk(s)), env)
        elif isinstance(s, ast.FunctionDef):
            env[s.name] = UNKNOWN
        return []

    def choice(self, s: ast.If, env: Env, when: list[ast.expr]) -> list[ast.expr] | None:
        test = self.value(s.test, env)
        known = truth(test)
        if known is not None:
            rest = self.block(s.body if known else s.orelse, env, when)
            return rest if rest is None else [x for x in rest if x is not NOFILE]
        yes, no = dict(env), dict(env)
        after_yes = self.block(s.body, yes, [*when, test])
        after_no = self.block(s.orelse, no, [*when, negated(test)])
        for ended, other in ((after_yes, no), (after_no, yes)):
            if ended and ended[-1] is NOFILE:
                # The converter stops there: a file that exists went the other way.
                env.clear()
                env.update(other)
                rest = after_no if other is no else after_yes
                return None if rest is None else [x for x in rest if x is not NOFILE]
        if after_yes is None or after_no is None:
            env.clear()
            env.update(no if after_yes is None else yes)
            rest = after_no if after_yes is None else after_yes
            return None if rest is None else [negated(test) if after_yes is None else test, *rest]
        for name in {*yes, *no}:
            a, b = yes.get(name, UNKNOWN), no.get(name, UNKNOWN)
            a, b = self.before(name, a, yes), self.before(name, b, no)
            env[name] = a if ast.dump(a) == ast.dump(b) else ast.IfExp(test, a, b)
        out: list[ast.expr] = []
        for extra, opposite in ((after_yes, negated(test)), (after_no, test)):
            if extra:
                out.append(ast.BoolOp(ast.Or(), [opposite, conj(extra)]))
        return out

    def call(self, node: ast.Call, env: Env, when: list[ast.expr]) -> None:
        """A call whose value nobody takes."""
        text = ast.unparse(node.func)
        target, _, name = text.rpartition(".")
        if name in self.writes and (target == "self.gguf_writer" or env.get(target) is WRITER):
            write = self.writes[name]
            value = self.value(node.args[0], env) if node.args and write.plain else UNKNOWN
            self.rows.append([write.key, write.type, _text(value), _condition(when)])
        elif target == "super()":
            after = self.order[self.order.index(self.owner) + 1 :] if self.owner in self.order else []
            self.method(name, after, {k: v for k, v in env.items() if k.startswith("[")}, when)
            self.seen(env)
        elif target in self.known and name in _all_methods(self.known, target):
            order = lineage(target, self.known)
            owner = next(c for c in order if name in self.known[c].methods)
            parameters = [a.arg for a in self.known[owner].methods[name].args.args]
            inner = {k: v for k, v in env.items() if k.startswith("[")}
            for p, a in zip(parameters, node.args, strict=False):
                inner[p] = WRITER if ast.unparse(a) == "self.gguf_writer" else self.value(a, env)
            self.method(name, order, inner, when)
        elif target == "self" and name != METHOD and any(name in self.known[c].methods for c in self.order):
            self.method(name, self.order, {k: v for k, v in env.items() if k.startswith("[")}, when)
        elif name == METHOD:
            self.opaque = True
        elif name in ("append", "extend", "insert", "update", "clear"):
            self.assign([node.func.value], UNKNOWN, env)  # type: ignore[attr-defined]
        else:
            self.value(node, env)

    def seen(self, env: Env) -> None:
        """What a parent's method left in the configuration counts afterwards, too."""
        env.update(self.left)

    def assign(self, targets: list[ast.expr], value: ast.expr, env: Env) -> None:
        super().assign(targets, value, env)
        self.left.update({k: v for k, v in env.items() if k.startswith("[")})


WRITER = ast.Name("writer")
NOFILE = ast.Name("nofile")
"""In the place of a condition: the converter raises an error."""


def _all_methods(known: dict[str, Class], name: str) -> set[str]:
    return {m for c in lineage(name, known) for m in known[c].methods}


def _text(value: ast.expr) -> str | None:
    text = ast.unparse(value)
    return None if _has_unknown(value) else text


def _has_unknown(value: ast.expr) -> bool:
    return any(isinstance(n, ast.Name) and n.id == "unknown" for n in ast.walk(value))


def _condition(when: list[ast.expr]) -> str:
    parts = list(dict.fromkeys(ast.unparse(w) for w in when))
    return " and ".join(f"({p})" if " " in p else p for p in parts)


def conversions(root: Path, build: str) -> tuple[dict[str, Any], list[str]]:
    """The whole data file, and which classes could not be read."""
    archs = architectures(root)
    known, writes, enums = classes(root, archs), writer(root), enumerations(root)
    table: dict[str, int] = {}
    out: dict[str, Any] = {}
    gaps: list[str] = []
    for name, one in known.items():
        order = lineage(name, known)
        own = next((known[c].archs for c in order if known[c].archs), [])
        # A class without names converts what comes without a `config.json`.
        if not (one.names or "model_name" in one.constants) or not own or any(a in ("clip", "mmproj") for a in own):
            continue
        for arch in own:
            run = Run(known, writes, {**enums, **{f"MODEL_ARCH.{k}": ast.Constant(v) for k, v in archs.items()}}, name)
            run.arch = arch
            made = {n: UNKNOWN for c in order if c not in BASE for n in known[c].made}
            try:
                run.method(METHOD, order, dict(made), [])
                run.method("generate_extra_tensors", order, made, [])
            except (ValueError, RecursionError) as e:
                gaps.append(f"conversion: {name}: {e}")
            if run.opaque:
                continue  # it hands over to another class, which stands here itself
            rows = [row for row in run.rows if row[3] != FALSE and not STRUCTURE.fullmatch(row[0])]
            entry = out.setdefault(arch, {}).setdefault(name, {"names": one.names, "writes": []})
            entry["writes"] = [table.setdefault(repr(row), len(table)) for row in rows]
    return {
        "build": build,
        "rows": [ast.literal_eval(row) for row in table],
        "classes": {arch: out[arch] for arch in sorted(out)},
    }, gaps
