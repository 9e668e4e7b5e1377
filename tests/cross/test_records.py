"""Records of `gguftool.records` are what the standard library's dataclasses would be; lazy regexes what `re` makes."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gguftool import records
from gguftool.regex import regex

ROOT = Path(__file__).resolve().parents[2]

# Every class of records of the package, told by the standard library's own words; with "standard" as its first
# argument the process makes all of them with the standard library.
TELL = """
import dataclasses, importlib, inspect, json, pkgutil, sys
import gguftool.records
if sys.argv[1] == "standard":
    for name in ("dataclass", "field", "fields", "replace", "asdict", "is_dataclass"):
        setattr(gguftool.records, name, getattr(dataclasses, name))
import gguftool
told = {}
for module in pkgutil.walk_packages(gguftool.__path__, "gguftool."):
    if module.name.endswith("__main__"):
        continue
    try:
        loaded = importlib.import_module(module.name)
    except ImportError:
        continue
    for cls in vars(loaded).values():
        if not isinstance(cls, type) or cls.__module__ != module.name or not dataclasses.is_dataclass(cls):
            continue
        told[f"{module.name}.{cls.__qualname__}"] = {
            "signature": [[p.name, str(p.kind), p.annotation, p.default is not p.empty]
                          for p in inspect.signature(cls).parameters.values()],
            "fields": [[f.name, f.type, f.init, f.repr, f.compare, f.default is dataclasses.MISSING,
                        f.default_factory is dataclasses.MISSING, sorted(f.metadata)] for f in dataclasses.fields(cls)],
            "slots": cls.__dict__.get("__slots__"), "match": cls.__match_args__,
            "hash": cls.__hash__ is None, "own hash": cls.__hash__ is object.__hash__,
            "own eq": cls.__eq__ is object.__eq__, "frozen": cls.__setattr__ is not object.__setattr__,
            "dict": "__dict__" in dir(cls), "own repr": cls.__repr__.__module__ == "gguftool.brief",
        }
print(json.dumps(told, default=repr))
"""


def told(kind: str) -> dict[str, dict[str, object]]:
    done = subprocess.run([sys.executable, "-c", TELL, kind], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, object]] = json.loads(done.stdout)
    return found


def test_every_record_of_the_package_is_what_the_standard_library_makes_of_it():
    ours, standard = told("ours"), told("standard")
    assert len(ours) > 400
    assert ours.keys() == standard.keys()
    assert [name for name in ours if ours[name] != standard[name]] == []


def pair(**how: bool) -> list[type]:
    """The same class by us and by the standard library."""

    def made(maker, field):
        class Point:
            x: int
            y: int = 2
            z: list[int] = field(default_factory=list, compare=False)
            secret: str = field(default="s", repr=False)

        Point.__qualname__ = "Point"
        return maker(**how)(Point)

    return [made(records.dataclass, records.field), made(dataclasses.dataclass, dataclasses.field)]


SHAPES = [{}, {"frozen": True}, {"slots": True}, {"frozen": True, "slots": True}, {"frozen": True, "eq": False}]


@pytest.mark.parametrize("how", SHAPES, ids=str)
@pytest.mark.parametrize("made_before", [0, 40], ids=["first", "compiled"])
def test_a_record_behaves(how: dict[str, bool], made_before: int):
    for Point in pair(**how):
        for n in range(made_before):
            Point(n)
        a, b, c = Point(1), Point(1, 2, [3]), Point(x=1, y=5)
        assert repr(a) == "Point(x=1, y=2, z=[])"
        assert (a == b) is how.get("eq", True)
        assert a != c
        assert a != (1, 2)
        assert a.z is not Point(1).z
        assert dataclasses.replace(a, y=9).y == records_replace(Point)(a, y=9).y == 9
        assert dataclasses.asdict(b) == {"x": 1, "y": 2, "z": [3], "secret": "s"}
        if how.get("frozen"):
            with pytest.raises(dataclasses.FrozenInstanceError):
                a.x = 3
            with pytest.raises(dataclasses.FrozenInstanceError):
                del a.x
            assert (hash(a) == hash(b)) is how.get("eq", True)
        else:
            a.x = 3
            assert a.x == 3
            with pytest.raises(TypeError):
                hash(a)
        assert hasattr(a, "__dict__") is not how.get("slots", False)
        match c:
            case Point(x, y):
                assert (x, y) == (1, 5)


def records_replace(cls: type):
    return records.replace if hasattr(cls, "__record__") else dataclasses.replace


@pytest.mark.parametrize("made_before", [0, 40], ids=["first", "compiled"])
@pytest.mark.parametrize(
    ("args", "named"), [((), {}), ((1, 2, [], "s", 5), {}), ((1,), {"x": 2}), ((1,), {"w": 2})], ids=str
)
def test_wrong_calls_are_refused_in_the_same_words(args, named, made_before: int):
    words = []
    for Point in pair(frozen=True, slots=True):
        for n in range(made_before):
            Point(n)
        with pytest.raises(TypeError) as caught:
            Point(*args, **named)
        words.append(re.sub(r"^\S*__init__", "__init__", str(caught.value)))
    assert words[0] == words[1]


@records.dataclass(frozen=True, slots=True)
class Kept:
    x: int
    y: tuple[int, ...] = ()


@records.dataclass(frozen=True, slots=True)
class More(Kept):
    w: str = "w"
    seen: list[str] = records.field(default_factory=list)

    def __post_init__(self) -> None:
        self.seen.append("made")


def test_copies_pickles_heirs_and_post_init():
    for _ in range(30):
        one = More(1, (2,), seen=[])
        for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert other == one
            assert other.seen == ["made"]
    assert not hasattr(one, "__dict__")
    assert More.__slots__ == ("w", "seen")
    assert records.replace(one, w="v", seen=[]) == More(1, (2,), "v")
    assert records.asdict(More(Kept(1), (1,))) == {"x": {"x": 1, "y": ()}, "y": (1,), "w": "w", "seen": ["made"]}
    assert str(inspect.signature(Kept)) == "(x: 'int', y: 'tuple[int, ...]' = ()) -> None"


def test_a_mutable_default_is_refused():
    with pytest.raises(ValueError, match="mutable default"):

        @records.dataclass
        class Wrong:
            x: list[int] = []  # noqa: RUF012


def test_a_lazy_regex_is_a_regex():
    ours, theirs = regex(r"(?P<n>\d+)-(x)", re.I), re.compile(r"(?P<n>\d+)-(x)", re.I)
    assert ours.sub(r"\2", "a 12-X b") == theirs.sub(r"\2", "a 12-X b")
    for name in ("match", "search", "fullmatch", "findall", "split"):
        assert repr(getattr(ours, name)("12-X")) == repr(getattr(theirs, name)("12-X"))
    assert (ours.pattern, ours.flags, ours.groups, ours.groupindex) == (
        theirs.pattern,
        theirs.flags,
        theirs.groups,
        theirs.groupindex,
    )
    with pytest.raises(AttributeError):
        _ = ours.nonsense


def test_every_regex_of_the_package_compiles():
    code = (
        "import gc, importlib, pkgutil, gguftool\n"
        "from gguftool.regex import _Later\n"
        "for module in pkgutil.walk_packages(gguftool.__path__, 'gguftool.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        try: importlib.import_module(module.name)\n"
        "        except ImportError: pass\n"
        "found = [x for x in gc.get_objects() if type(x) is _Later]\n"
        "print(len(found), sum(x.groups >= 0 for x in found))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    count, compiled = map(int, done.stdout.split())
    assert count == compiled > 300


def outside_functions(node: ast.AST):
    """The nodes that run when a module is loaded."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        yield child
        yield from outside_functions(child)


def test_no_module_makes_them_the_slow_way():
    slow = []
    for path in sorted((ROOT / "gguftool").rglob("*.py")):
        if path.name in ("records.py", "regex.py"):
            continue
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if (isinstance(node, ast.ImportFrom) and node.module == "dataclasses") or "dataclasses" in names:
                slow.append(f"{path.name}: dataclasses")
        for node in outside_functions(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
                slow.append(f"{path.name}:{node.lineno}: re.compile")
    assert slow == []
