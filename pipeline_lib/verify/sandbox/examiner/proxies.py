"""Proxies of values that remain in the candidate's process; none can pass for a plain value.

An object may be passed back and, if it is a function, called. Objects of the class under test
support more; objects of a class with which tests build arguments support less. Class names
occur in error messages of tests, and so in verdicts: do not rename them.
"""

import enum
import re
from collections.abc import AsyncIterator, Callable, Iterator
from types import FunctionType, GeneratorType
from typing import Any, NoReturn

from pipeline_lib.verdicts import Status
from pipeline_lib.verify.sandbox.examiner.session import END, Role, Session
from pipeline_lib.verify.sandbox.protocol import TYPES

CLASS_NAME = re.compile(r"[A-Z][A-Za-z0-9]*")
"""Names of classes; a function of such a name may be replaced by one."""
_NAMES = ("_session", "_kind", "_role", "_given", "_origin")
_BINARY = [
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow"),
    *("and_", "or_", "xor", "lshift", "rshift"),
]
_METHODS = [
    *("len", "bool", "str", "repr", "iter", "reversed", "neg", "pos", "abs", "invert", "index"),
    *("enter", "getitem", "setitem", "delitem", "contains", *_BINARY),
]
_SEND_DATA = frozenset([*_BINARY, "contains"])
_READS = frozenset(["str", "repr", "len", "iter", "reversed", "getitem", "setitem", "delitem"])
_PLAIN_ATTRIBUTES = frozenset(name for kind in TYPES.values() for name in dir(kind))
_EXACT = {"len": int, "bool": bool, "str": str, "repr": str}
_NOTHING = object()
_COMPARED = (int, float, str, bool)


class Origin(enum.Enum):
    """The origin of a proxy of an object in the tests; it decides which operations are allowed."""

    BUILT = "by a call of the class: they know it for an object"
    DERIVED = "as a reply: it may stand in the place of a plain value"
    FED = "from an operator with data of the tests: its program knows what they may expect"


class Opaque:
    """A value that remains in the candidate's process, such as a node of a tree.

    It has no equality, order or hash, since the candidate would define all of them.
    """

    __slots__ = _NAMES
    _session: Session
    _role: Role
    _kind: str
    _origin: Origin
    _given: dict[str, object]
    """Attributes that tests have set on a borrowed object; "": its only argument."""
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, session: Session, number: int, kind: str, role: Role) -> None:
        values: tuple[object, ...] = (session, kind, role, {}, Origin.DERIVED)
        for name, value in zip(_NAMES, values, strict=True):
            object.__setattr__(self, name, value)
        session.numbers[id(self)] = (number, self)

    def stem_from_(self, origin: Origin) -> None:
        """Note how the tests got it."""
        object.__setattr__(self, "_origin", origin)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call it in the candidate's process."""
        if self._role is Role.BORROWED:
            raise self._refusal("calls")
        if self._role is not Role.CLASS:
            return self._session.call(self._role, self, *args, **kwargs)
        made = self._session.request("call", self, list(args), kwargs, role=Role.BORROWED)
        if not isinstance(made, Opaque):
            raise self._refusal("calls")
        if len(args) == 1 and not kwargs:
            made._given[""] = args[0]  # noqa: SLF001 - a proxy too
        return made

    def __getattr__(self, name: str) -> Any:
        role = self._role
        if role is Role.RESULT or name.startswith("__array"):
            # NumPy would read memory at an address that the program gives.
            raise self._refusal(f"reads .{name} of")
        value = self.request_("get", name)
        stands_in = self._origin is not Origin.BUILT and name in _PLAIN_ATTRIBUTES
        if (role is not Role.TESTED and not self._was_given(name, value)) or (
            role is Role.TESTED and stands_in and isinstance(value, Opaque)
        ):
            raise self._refusal(f"reads .{name} of")
        return value

    def __setattr__(self, name: str, value: object) -> None:  # type: ignore[explicit-override]
        if self._role is Role.RESULT:
            raise self._refusal(f"sets .{name} of")
        self.request_("set", name, value)
        self._given[name] = value

    def _was_given(self, name: str, value: object) -> bool:
        """True if tests are known to have set this attribute to this value."""
        given = self._given.get(name, self._given.get("", _NOTHING))
        return value is given or (
            type(value) is type(given) and type(value) in _COMPARED and value == given
        )

    def __exit__(self, *_: object) -> None:
        self._operated("exit")

    def __instancecheck__(self, _: object) -> NoReturn:
        raise self._refusal("isinstance of")

    def _operated(self, name: str, *operands: object, swapped: bool = False) -> Any:
        if self._role is not Role.TESTED:
            raise self.judged_as_plain(name)
        is_fed = name in _SEND_DATA and not all(isinstance(one, Opaque) for one in operands)
        if (is_fed and self._origin is not Origin.BUILT) or (
            self._origin is Origin.FED and name not in _READS
        ):
            raise self._refusal(f"{name} of data with")
        if name == "len" and self._kind == "own":
            # Raised here, because ``list`` asks for a length that an object need not have.
            raise TypeError("an object without len()")
        both = (*operands, self) if swapped else (self, *operands)
        value = self._session.request("operate", name, *both)
        if isinstance(value, Opaque):
            if name in _BINARY:
                value.stem_from_(Origin.FED if is_fed else self._origin)
            return Items(value, Iterator) if name == "iter" else value
        if (is_fed and name in _BINARY) or type(value) is not _EXACT.get(name, type(value)):
            raise self._refusal(f"{name} of data with")
        return value

    def _compared(self, other: object) -> NoReturn:
        if type(other) not in TYPES.values():
            raise self._refusal("compares")
        raise self.judged_as_plain("comparison")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _compared

    def request_(self, operation: str, *operands: object) -> Any:
        """The reply to an operation on it."""
        return self._session.request(operation, self, *operands, role=self._role)

    def judged_as_plain(self, use: str) -> BaseException:
        """End the run: wrong if a result is compared or used as a condition, else unscored."""
        is_unknown = self._kind.startswith("library") or (use, self._kind) == ("bool", "sized")
        if use in {"comparison", "bool"} and self._role is Role.RESULT and not is_unknown:
            detail = "the candidate's value is not plain, so it cannot be judged"
            return self._session.refuse(Status.WRONG, detail)
        return self._refusal(f"{use} of")

    def _refusal(self, use: str) -> BaseException:
        detail = f"a test asks {use} a value that is not plain ({self._kind})"
        return self._session.refuse(Status.VERIFIER_ERROR, detail)


def _operation(name: str, *, swapped: bool = False) -> Callable[..., Any]:
    def operate(self: Opaque, *operands: object) -> Any:
        return self._operated(name, *operands, swapped=swapped)

    return operate


for _name in _METHODS:
    setattr(Opaque, f"__{_name.strip('_')}__", _operation(_name))
for _name in _BINARY:
    setattr(Opaque, f"__r{_name.strip('_')}__", _operation(_name, swapped=True))


class EntryPoint:
    """The function or class under test, as the tests see it: they take it for a function."""

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self.__name__ = self.__qualname__ = name

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call it in the candidate's process."""
        value = self._session.call(self._session.role, self.__name__, *args, **kwargs)
        if isinstance(value, Opaque):
            value.stem_from_(Origin.BUILT)
        return value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            self._session.was_questioned = True
            raise AttributeError(name, name=name, obj=self)
        if self._session.role is not Role.TESTED:
            raise self._refusal(f"reads .{name}")
        return self._session.request("get", self.__name__, name)

    def __instancecheck__(self, _: object) -> NoReturn:
        raise self._refusal("isinstance")

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[explicit-override]
        return EntryPoint if self._session.role is Role.TESTED else FunctionType

    @property
    def __signature__(self) -> NoReturn:
        raise self._refusal("reads the signature or the documentation")

    # Its own docstring would pass for the docstring of the function.
    __doc__ = __signature__

    def _refusal(self, use: str) -> BaseException:
        return self._session.refuse(Status.VERIFIER_ERROR, f"a test {use} of the function itself")


class Items:
    """An iterator that remains in the candidate's process; each item is sent separately."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, iterator: Opaque, kind: type) -> None:
        self._iterator = iterator
        self._kind = kind

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[explicit-override]
        return self._kind

    def __iter__(self) -> "Items":
        return self

    def __next__(self) -> Any:
        item = self._iterator.request_("next")
        if item is END:
            raise StopIteration
        return item

    def send(self, value: object) -> Any:
        """Resume the generator with a value."""
        return self._iterator.request_("method", "send", value)

    def close(self) -> None:
        """End the generator."""
        self._iterator.request_("method", "close")

    def _refuse(self, *_: object) -> NoReturn:
        raise self._iterator.judged_as_plain("comparison")

    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse


def make_proxy(session: Session, number: int, kind: str, role: Role) -> object:
    """The proxy of one value: :class:`Items` for an iterator, else :class:`Opaque`."""
    made = Opaque(session, number, kind, role)
    category, _, name = kind.partition(":")
    if category == "coroutine":
        return _awaited(session, made)
    if category == "async":
        return _items_async(session, made)
    return Items(made, _ITERATORS.get(name, Iterator)) if category == "iterator" else made


async def _awaited(session: Session, coroutine: Opaque) -> Any:
    return session.request("await", coroutine)


async def _items_async(session: Session, iterator: Opaque) -> AsyncIterator[Any]:
    while (item := session.request("anext", iterator)) is not END:
        yield item


_ITERATORS: dict[str, type] = {
    "generator": GeneratorType,
    **{kind.__name__: kind for kind in (map, filter, zip, enumerate, reversed)},
}
"""Reported ``__class__`` of an iterator's proxy."""
