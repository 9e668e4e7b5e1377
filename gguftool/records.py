"""Records: what `dataclasses.dataclass` makes, made in a twentieth of the time.

A command loads some hundred classes of records and makes objects of a few. The standard library writes and compiles
every method of a class when the class is made, 0.4 ms each; here the methods are shared, and only an ``__init__`` that
is called often is compiled (`_compiled`). Spelling and meaning are the standard library's: type checkers are given
its own names, `dataclasses.fields`, ``replace``, ``asdict`` and `inspect.signature` take these classes, too.
What nothing here uses is not there: ``order``, ``unsafe_hash``, ``kw_only``, ``weakref_slot``, ``InitVar``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import asdict as asdict
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import is_dataclass as is_dataclass
    from dataclasses import replace as replace
else:
    from operator import attrgetter
    from types import MemberDescriptorType

    # So many objects are made field by field before an `__init__` of the class's own is compiled: that takes as long
    # as is lost with some fifty of them.
    _PATIENCE = 50

    MISSING = object()

    class Field:
        """A field of a record: its name, its type as it is written, and what it is when nothing is given."""

        __slots__ = ("compare", "default", "default_factory", "init", "metadata", "name", "repr", "type")

        def __init__(self, default=MISSING, default_factory=MISSING, init=True, repr=True, compare=True, metadata=None):
            self.name = self.type = ""
            self.default = default
            self.default_factory = default_factory
            self.init = init
            self.repr = repr
            self.compare = compare
            self.metadata = metadata or {}

    def field(*, default=MISSING, default_factory=MISSING, init=True, repr=True, compare=True, metadata=None):
        """What a field is beyond its type; as `dataclasses.field`."""
        return Field(default, default_factory, init, repr, compare, metadata)

    class _Standard:
        """``__dataclass_fields__``, made for those who ask the standard library about a record."""

        __slots__ = ()

        def __get__(self, one, cls):
            import dataclasses

            found = {}
            for f in cls.__record__:
                default = dataclasses.MISSING if f.default is MISSING else f.default
                factory = dataclasses.MISSING if f.default_factory is MISSING else f.default_factory
                how = {"init": f.init, "repr": f.repr, "compare": f.compare, "metadata": f.metadata}
                made = dataclasses.field(default=default, default_factory=factory, **how)
                made.name, made.type, made._field_type = f.name, f.type, dataclasses._FIELD
                found[f.name] = made
            return found

    class _Signature:
        """``__signature__`` of a class of records, for `inspect` and `help`."""

        __slots__ = ()

        def __get__(self, one, cls):
            if "__record__" not in cls.__dict__:
                raise AttributeError("__signature__")
            import inspect

            signature = inspect.signature(_init_of(cls))
            return signature.replace(parameters=list(signature.parameters.values())[1:])

    _STANDARD, _SIGNATURE = _Standard(), _Signature()

    def _init_of(cls):
        """An ``__init__`` for ``cls`` as a person would write it, compiled."""
        names = {"_set": object.__setattr__, "_MISSING": MISSING}
        words, lines = ["self"], []
        for f in cls.__record__:
            value = f.name
            if f.default_factory is not MISSING:
                names[f"_make_{f.name}"] = f.default_factory
                value = f"_make_{f.name}()"
                if f.init:
                    words.append(f"{f.name}=_MISSING")
                    value = f"{value} if {f.name} is _MISSING else {f.name}"
            elif f.default is not MISSING:
                names[f"_default_{f.name}"] = f.default
                value = f"_default_{f.name}"
                if f.init:
                    words.append(f"{f.name}=_default_{f.name}")
                    value = f.name
            elif f.init:
                words.append(f.name)
            else:
                continue
            lines.append(f" _set(self, {f.name!r}, {value})" if cls.__frozen__ else f" self.{f.name} = {value}")
        if hasattr(cls, "__post_init__"):
            lines.append(" self.__post_init__()")
        made = {}
        # The names are those of annotations in our own classes, identifiers all.
        exec(f"def __init__({', '.join(words)}):\n" + ("\n".join(lines) or " pass"), names, made)
        init = made["__init__"]
        init.__qualname__ = f"{cls.__qualname__}.__init__"
        init.__module__ = cls.__module__
        init.__annotations__ = {f.name: f.type for f in cls.__record__ if f.init} | {"return": None}
        return init

    def _first_init(owner):
        """An ``__init__`` for a class of which few objects are made: it takes its fields one by one."""
        patience, places = _PATIENCE, None
        defaults, needed = (), 0

        def __init__(self, *args, **kwargs):
            nonlocal patience, places, defaults, needed
            patience -= 1
            if patience < 0:
                owner.__init__ = init = _init_of(owner)
                return init(self, *args, **kwargs)
            if places is None:
                places, defaults, needed = _places(owner)
            given = len(args)
            if not kwargs and needed <= given < len(places):
                args += defaults[given:]
            if not kwargs and places and len(args) == len(places):
                for put, value in zip(places, args, strict=True):
                    put(self, value)
            elif not _one_by_one(self, owner, args, kwargs):
                # Too many, too few, or one twice: Python has the words for it.
                return _init_of(owner)(self, *args, **kwargs)
            if hasattr(self, "__post_init__"):
                self.__post_init__()
            return None

        return __init__

    def _places(owner):
        """What puts a value into each slot of an object, the defaults, and how many have none.

        There are no places where a field is no slot, is not given, or is made by a factory.
        """
        own = owner.__record__
        slots = [getattr(owner, f.name, None) for f in own if f.init and f.default_factory is MISSING]
        if len(slots) < len(own) or not all(type(x) is MemberDescriptorType for x in slots):
            return (), (), 0
        defaults = tuple(f.default for f in own)
        needed = sum(x is MISSING for x in defaults)
        return tuple(x.__set__ for x in slots), defaults, needed

    def _one_by_one(self, owner, args, kwargs):
        """Fill an object field by field; False: what is given does not go with its fields."""
        put = object.__setattr__
        at, given, named = 0, len(args), len(kwargs)
        for f in owner.__record__:
            name = f.name
            if f.init and at < given:
                value = args[at]
                at += 1
            elif f.init and name in kwargs:
                value = kwargs[name]
                named -= 1
            elif f.default is not MISSING:
                value = f.default
            elif f.default_factory is not MISSING:
                value = f.default_factory()
            elif f.init:
                return False
            else:
                continue
            put(self, name, value)
        return at == given and not named

    def _repr(self):
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.__record__ if f.repr)
        return f"{type(self).__qualname__}({shown})"

    def _eq(self, other):
        cls = type(self)
        if type(other) is not cls:
            return NotImplemented
        return self is other or cls.__compared__(self) == cls.__compared__(other)

    def _hash(self):
        return hash(type(self).__compared__(self))

    def _refuse_set(self, name, value):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_delete(self, name):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot delete field {name!r}")

    # Pickled and copied objects of a frozen class get their fields past its refusal.
    def _state(self):
        return [getattr(self, f.name) for f in self.__record__]

    def _set_state(self, state):
        for f, value in zip(self.__record__, state, strict=True):
            object.__setattr__(self, f.name, value)

    def _compared(names):
        """The values that equality and hash look at, as a tuple."""
        if len(names) > 1:
            return attrgetter(*names)
        return lambda one: tuple(getattr(one, name) for name in names)

    def _own_fields(cls):
        given = cls.__dict__
        for name, kind in cls.__annotations__.items():
            if str(kind).startswith(("ClassVar", "typing.ClassVar")):
                continue
            said = given.get(name, MISSING)
            one = said if type(said) is Field else Field(said)
            if type(one.default) in (list, dict, set):
                raise ValueError(f"mutable default {type(one.default)} for field {name} is not allowed")
            one.name, one.type = name, kind
            yield one

    def _record(cls, frozen, slots, eq, repr):
        own = list(_own_fields(cls))
        every, taken = own, ()
        if cls.__base__ is not object or len(cls.__bases__) > 1:
            above = {f.name: f for base in reversed(cls.__mro__[1:]) for f in base.__dict__.get("__record__", ())}
            every = (above | {f.name: f for f in own}).values()
            taken = {name for base in cls.__mro__[1:-1] for name in base.__dict__.get("__slots__", ())}
        names = dict(cls.__dict__)
        for f in own:
            # A slot cannot have a default in the class, and a factory's product belongs to one object.
            if slots or f.default is MISSING:
                names.pop(f.name, None)
            else:
                names[f.name] = f.default
        names["__record__"] = tuple(every)
        names["__frozen__"] = frozen
        names["__dataclass_fields__"] = _STANDARD
        names["__signature__"] = _SIGNATURE
        names.setdefault("__match_args__", tuple(f.name for f in every if f.init))
        if repr:
            names.setdefault("__repr__", _repr)
        if eq:
            names["__compared__"] = _compared([f.name for f in every if f.compare])
            names.setdefault("__eq__", _eq)
            # Python itself puts None at ``__hash__`` of a class that says ``__eq__``.
            if names.get("__hash__") is None:
                names["__hash__"] = _hash if frozen else None
        if frozen:
            names["__setattr__"], names["__delattr__"] = _refuse_set, _refuse_delete
            if slots:
                names.setdefault("__getstate__", _state)
                names.setdefault("__setstate__", _set_state)
        if slots:
            names["__slots__"] = tuple(f.name for f in own if f.name not in taken)
        names.pop("__dict__", None)
        names.pop("__weakref__", None)
        made = type(cls)(cls.__name__, cls.__bases__, names)
        made.__qualname__ = cls.__qualname__
        if "__init__" not in names:
            made.__init__ = _first_init(made)
        return made

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, repr=True):
        """A class of records; as `dataclasses.dataclass`."""
        if cls is not None:
            return _record(cls, frozen, slots, eq, repr)
        return lambda cls: _record(cls, frozen, slots, eq, repr)

    def fields(one):
        """The fields of a record or of its class; as `dataclasses.fields`."""
        return one.__record__

    def is_dataclass(one):
        """Whether this is a record or a class of records; as `dataclasses.is_dataclass`."""
        return hasattr(one, "__record__")

    def replace(one, /, **changes):
        """A record with other values in some fields; as `dataclasses.replace`."""
        for f in one.__record__:
            if not f.init:
                if f.name in changes:
                    raise ValueError(f"field {f.name} is declared with init=False, it cannot be replaced")
            elif f.name not in changes:
                changes[f.name] = getattr(one, f.name)
        return type(one)(**changes)

    def asdict(one):
        """A record, and the records in it, as dictionaries; as `dataclasses.asdict`."""
        return {f.name: _plain(getattr(one, f.name)) for f in one.__record__}

    def _plain(value):
        if value is None or type(value) in (str, int, float, bool, bytes):
            return value
        if hasattr(type(value), "__record__"):
            return asdict(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(_plain, value))
        if isinstance(value, (list, tuple)):
            return type(value)(map(_plain, value))
        if isinstance(value, dict):
            pairs = [(_plain(k), _plain(v)) for k, v in value.items()]
            if hasattr(type(value), "default_factory"):
                return type(value)(value.default_factory, pairs)
            return type(value)(pairs)
        from copy import deepcopy

        return deepcopy(value)
