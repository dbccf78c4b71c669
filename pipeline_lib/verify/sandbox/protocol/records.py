"""Objects of classes that tests and program both define, sent as their attributes.

Such a class is given by the prompt, as nodes of lists and trees are, or written twice, as a
dataclass is. The other side makes an object of its own class: nothing of the program's class, and
no function in an attribute, reaches the tests.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any

from pipeline_lib.verify.sandbox.protocol.codec import NotPlainError, tagged


class Records:
    """Records of one side: ``find`` its class of a name; objects of shared classes are sent as records."""

    def __init__(
        self, find: Callable[[str], type | None], is_shared: Callable[[type], bool]
    ) -> None:
        self._find = find
        self._is_shared = is_shared
        self._written: dict[int, int] = {}
        self._read: dict[int, Any] = {}

    def begin(self) -> None:
        """Begin another frame; numbers of objects are of one frame."""
        self._written.clear()
        self._read.clear()

    def content(self, value: object) -> list[Any] | None:
        """A reference that holds the attributes of a record; None of another value."""
        kind = type(value)
        if isinstance(value, type | BaseException) or not self._is_shared(kind):
            return None
        if isinstance(value, Enum):
            return ["member", kind.__name__, value.name]
        number = self._written.get(id(value))
        if number is not None:
            return ["record", kind.__name__, number]
        is_outer = not self._written
        number = self._written[id(value)] = len(self._written)
        try:
            return ["record", kind.__name__, number, tagged(attributes(value), self.content)]
        except NotPlainError:
            if not is_outer:
                raise
            self._written.clear()
            return None

    def made(self, content: list[Any]) -> Any:
        """The object of the own class that a reference describes.

        Raises:
            NotPlainError: there is no such class, or an attribute would hide one of its methods.
        """
        match content:
            case ["member", str(name), str(member)] if kind := self._find(name):
                return kind[member]  # type: ignore[index]
            case ["record", str(name), int(number), *rest] if kind := self._find(name):
                made = self._read.get(number)
                if made is None:
                    made = self._read[number] = kind.__new__(kind)  # type: ignore[call-overload]
                for name, value in rest[0].items() if rest else ():
                    if name.startswith("__") or callable(getattr(kind, name, None)):
                        raise NotPlainError("an attribute in place of a method")
                    object.__setattr__(made, name, value)
                return made
            case _:
                raise NotPlainError("a reference that is none")


def attributes(value: object) -> dict[str, object]:
    """The attributes of an object, in slots or not."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    found = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return {**found, **getattr(value, "__dict__", {})}
