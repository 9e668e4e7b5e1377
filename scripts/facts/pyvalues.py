"""Expressions of the converter with the names of `conversions.json` in place of its own."""

from __future__ import annotations

import ast
from typing import Any

from pyclasses import Class

UNKNOWN = ast.Name("unknown")
FALSE = "False"
Env = dict[str, ast.expr]
"""Local names; ``[config]name`` and ``[rope]name`` are entries that the converter itself has set."""
BASES = {"self.hparams": "config", "self.rope_parameters": "rope", "self.block_count": "layers"}
FUNCTIONS = frozenset("int float bool str len all any min max abs range enumerate list round isinstance".split())
METHODS = frozenset(("get", "lower", "strip", "split", "keys"))
OPTIONS = frozenset(("no_mtp", "mtp_only"))
"""What the user chooses, not the model."""
GRAMMAR = (
    ast.Constant, ast.List, ast.Tuple, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Slice,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context, ast.comprehension,
)  # fmt: skip


def truth(node: ast.expr) -> bool | None:
    """What a condition comes to, None where it depends on the model."""
    return bool(node.value) if isinstance(node, ast.Constant) else None


def negated(node: ast.expr) -> ast.expr:
    """The opposite."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    return ast.UnaryOp(ast.Not(), node)


def conj(parts: list[ast.expr]) -> ast.expr:
    """All of them."""
    return parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts)


class Values:
    """Turns expressions into those of the data file.

    Args:
        known: all classes.
        enums: numbers of enumerations.
        order: the class and its parents.
    """

    def __init__(self, known: dict[str, Class], enums: dict[str, ast.expr], order: list[str]) -> None:
        self.known, self.enums, self.order = known, enums, order
        self.owner, self.arch = "", ""
        self.left: Env = {}

    def assign(self, targets: list[ast.expr], value: ast.expr, env: Env) -> None:
        """Give names a value."""
        for target in targets:
            if isinstance(target, ast.Name):
                env[target.id] = value
            elif isinstance(target, ast.Subscript):
                base, key = self.value(target.value, env), target.slice
                if isinstance(base, ast.Name) and isinstance(key, ast.Constant):
                    env[f"[{base.id}]{key.value}"] = value
                elif isinstance(target.value, ast.Name):
                    env[target.value.id] = UNKNOWN
            elif isinstance(target, ast.Attribute):
                env[ast.unparse(target)] = value
            else:
                self.forget([target], env)

    def forget(self, nodes: list[Any], env: Env) -> None:
        """Names that are set among these nodes may have any value."""
        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                env[node.id] = UNKNOWN
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".append", ".extend")):
                env[ast.unparse(node.func).rpartition(".")[0]] = UNKNOWN

    def before(self, name: str, value: ast.expr, env: Env) -> ast.expr:
        """The value of an entry that only one of two ways has set."""
        if value is UNKNOWN and name.startswith("[") and name not in env:
            base, _, key = name[1:].partition("]")
            return ast.parse(f"{base}.get({key!r})", mode="eval").body
        return value

    def value(self, node: ast.expr, env: Env) -> ast.expr:
        """The expression in names of the data file; conditions that are settled are worked out."""
        if isinstance(node, ast.NamedExpr):
            env[node.target.id] = self.value(node.value, env)
            return env[node.target.id]
        text = ast.unparse(node)
        if text in env:
            return env[text]
        if text in BASES:
            return ast.Name(BASES[text])
        if isinstance(node, ast.Name):
            return UNKNOWN
        if isinstance(node, ast.Attribute):
            return self._attribute(node, env)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, env)
        if isinstance(node, ast.Call):
            return self._call(node, env)
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            return self._comprehension(node, env)
        if isinstance(node, ast.Dict) and not node.keys:
            return node
        if not isinstance(node, GRAMMAR):
            return UNKNOWN
        return folded(self._parts(node, env), env)

    def _parts(self, node: Any, env: Env) -> Any:
        made = type(node)()
        for name, part in ast.iter_fields(node):
            if isinstance(part, ast.expr):
                part = self.value(part, env)
            elif isinstance(part, list):
                part = [self.value(p, env) if isinstance(p, ast.expr) else p for p in part]
            setattr(made, name, part)
        return made

    def _attribute(self, node: ast.Attribute, env: Env) -> ast.expr:
        text = ast.unparse(node)
        if text == "self.model_arch":
            return ast.Constant(self.arch)
        if text.removeprefix("gguf.") in self.enums:
            return self.enums[text.removeprefix("gguf.")]
        if node.attr == "value" and isinstance(found := self.value(node.value, env), ast.Constant):
            return found
        if text.startswith("self.") and node.attr not in OPTIONS:
            for c in self.order:
                constant = self.known[c].constants.get(node.attr)
                if constant is not None and all(isinstance(n, GRAMMAR) for n in ast.walk(constant)):
                    return constant
        return UNKNOWN

    def _subscript(self, node: ast.Subscript, env: Env) -> ast.expr:
        base, index = self.value(node.value, env), self.value(node.slice, env)
        if isinstance(base, ast.Name) and isinstance(index, ast.Constant):
            own = env.get(f"[{base.id}]{index.value}")
            if own is not None:
                return own
        return UNKNOWN if base is UNKNOWN else ast.Subscript(base, index, ast.Load())

    def _call(self, node: ast.Call, env: Env) -> ast.expr:
        text = ast.unparse(node.func)
        if text == "self.find_hparam":
            return self._found(node, env)
        arguments = [self.value(a, env) for a in node.args]
        if text in ("math.log", "math.sqrt"):
            return ast.Call(ast.Name(text.removeprefix("math.")), arguments, [])
        if isinstance(node.func, ast.Name) and text in FUNCTIONS and not node.keywords:
            return ast.Call(node.func, arguments, [])
        if not isinstance(node.func, ast.Attribute):
            return UNKNOWN
        base, name = self.value(node.func.value, env), node.func.attr
        entry = f"[{base.id}]{arguments[0].value}" if _entry(base, arguments) else ""  # type: ignore[attr-defined]
        if name == "get" and entry in env:
            own = env[entry]
            default = arguments[1] if len(arguments) > 1 else ast.Constant(None)
            if isinstance(own, ast.Constant):
                return default if own.value is None else own
            return own
        if name == "pop" and entry:
            old = self.value(ast.Call(ast.Attribute(node.func.value, "get", ast.Load()), node.args, []), env)
            env[entry] = self.left[entry] = ast.Constant(None)
            return old
        if name not in METHODS or base is UNKNOWN:
            return UNKNOWN
        return ast.Call(ast.Attribute(base, name, ast.Load()), arguments, [])

    def _found(self, node: ast.Call, env: Env) -> ast.expr:
        names = self.value(node.args[0], env)
        if not isinstance(names, ast.List | ast.Tuple):
            return UNKNOWN
        optional = any(k.arg == "optional" and getattr(k.value, "value", False) for k in node.keywords)
        optional |= len(node.args) > 1 and bool(getattr(node.args[1], "value", False))
        for i, name in enumerate(names.elts):
            own = env.get(f"[config]{getattr(name, 'value', '')}")
            if own is None:
                continue
            if i == 0 or ast.unparse(own) == f"config.get({name.value!r})":  # type: ignore[attr-defined]
                return own
            return UNKNOWN
        return ast.Call(ast.Name("first" if optional else "need"), list(names.elts), [])

    def _comprehension(self, node: Any, env: Env) -> ast.expr:
        if len(node.generators) != 1:
            return UNKNOWN
        one = node.generators[0]
        targets = [n.id for n in ast.walk(one.target) if isinstance(n, ast.Name)]
        inner = {**env, **{t: ast.Name(t) for t in targets}}
        made = ast.comprehension(one.target, self.value(one.iter, env), [self.value(i, inner) for i in one.ifs], 0)
        return ast.ListComp(self.value(node.elt, inner), [made])


def _entry(base: ast.expr, arguments: list[ast.expr]) -> bool:
    return isinstance(base, ast.Name) and bool(arguments) and isinstance(arguments[0], ast.Constant)


def folded(node: ast.expr, env: Env) -> ast.expr:
    """The same, worked out as far as constants go."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        known = truth(node.operand)
        return node if known is None else ast.Constant(not known)
    if isinstance(node, ast.BoolOp):
        return _joined(node)
    if isinstance(node, ast.IfExp):
        known = truth(node.test)
        return node if known is None else node.body if known else node.orelse
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(node, env)
    return node


def _joined(node: ast.BoolOp) -> ast.expr:
    ends = isinstance(node.op, ast.Or)
    rest = [v for v in node.values if truth(v) is None or truth(v) is ends]
    if any(truth(v) is ends for v in rest):
        first = next(i for i, v in enumerate(rest) if truth(v) is ends)
        if first == 0 or not ends:
            return rest[first]
        rest = rest[: first + 1]
    if not rest:
        return node.values[-1]
    return rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _compared(node: ast.Compare, env: Env) -> ast.expr:
    left, right, op = node.left, node.comparators[0], node.ops[0]
    if isinstance(left, ast.Constant) and isinstance(right, ast.Name) and isinstance(op, ast.In | ast.NotIn):
        own = env.get(f"[{right.id}]{left.value}")
        if isinstance(own, ast.Constant):
            return ast.Constant((own.value is not None) is isinstance(op, ast.In))
    if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
        a, b = left.value, right.value
        same = a is b if isinstance(op, ast.Is | ast.IsNot) else a == b
        if isinstance(op, ast.Eq | ast.Is):
            return ast.Constant(same)
        if isinstance(op, ast.NotEq | ast.IsNot):
            return ast.Constant(not same)
    return node
