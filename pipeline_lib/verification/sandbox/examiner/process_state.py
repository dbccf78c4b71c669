"""State of the tests' process that a program would share if both ran in one.

What tests changed is found by looking at their process, not at their source. Of it the seed of
``random``, standard input and output, arguments and environment are replicated in the candidate;
attributes that tests replace by functions or plain values are, too. A program that fails tests
that changed something else is not shown to be wrong.
"""

import contextlib
import io
import os
import random
import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

_environment = os.environ  # noqa: TID251 - that of the tests
_SEEDERS = ("seed", "setstate")


def _loggers(logging: Any) -> list[object]:
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    return [(vars(one).get("level"), list(vars(one).get("handlers", ()))) for one in loggers]


_WORD = re.compile(r"\w+")
_INSIDE: dict[str, Callable[[Any], object]] = {
    "decimal": lambda module: repr(module.getcontext()),
    "locale": lambda module: module.setlocale(module.LC_ALL),
    "csv": lambda module: (module.list_dialects(), module.field_size_limit()),
    "logging": _loggers,
    "os": lambda module: module.getcwd(),
    "signal": lambda module: [module.getsignal(number) for number in range(1, 32)],
    "sys": lambda module: (module.getrecursionlimit(), module.get_int_max_str_digits()),
    "warnings": lambda module: list(module.filters),
}
"""State that is no attribute, by module."""
_OWN = {"sys": {"stdin", "stdout", "stderr", "argv"}, "os": {"environ"}, "random": set(_SEEDERS)}
"""Attributes that are replicated otherwise, or change by themselves."""


class ProcessState:
    """Changes of process state since the last request to the candidate."""

    def __init__(self) -> None:
        self.is_lost = False
        """True if a change was not replicated."""
        self._stdout, self._stdin, self._stderr = sys.stdout, sys.stdin, sys.stderr
        self._carried: dict[str, object] = {}
        self._first: dict[str, Any] = {}
        self._seeded = False
        self._seeders = {name: getattr(random, name) for name in _SEEDERS}
        self._tests = ""
        self._draws = False
        self._words: set[str] = set()
        self._watched: list[list[Any]] = []
        self._inside: dict[str, object] = {}

    def watch(self, tests: str) -> None:
        """Note the state before the tests, of modules that they name."""
        self._tests = tests
        self._numpy: Any = None
        self._draws = "random" in tests
        self._first = {
            "argv": list(sys.argv),
            "environ": dict(_environment),
            "random": random.getstate() if self._draws else None,
        }
        self._carried = {"capture_stdout": False, "stdin": None, **self._first}
        if self._draws:
            # Tests may set the same seed again, which no look at the state would show.
            for name, function in self._seeders.items():
                setattr(random, name, self._noted(function))

    def _noted(self, function: Callable[..., None]) -> Callable[..., None]:
        def seed(*arguments: Any) -> None:
            self._seeded = True
            function(*arguments)

        return seed

    @contextlib.contextmanager
    def as_at_first(self) -> Iterator[None]:
        """The state before the tests; random draws of the tests are then the same again."""
        self.restore()
        yield
        self.restore()

    def restore(self) -> None:
        """Set the state that was before the tests."""
        sys.stdout, sys.stdin, sys.stderr = self._stdout, self._stdin, self._stderr
        sys.argv = list(self._first["argv"])
        for _, holder, name, _, first in self._watched:
            if vars(holder).get(name) is not first:
                setattr(holder, name, first)
        if _environment != self._first["environ"]:
            _environment.clear()
            _environment.update(self._first["environ"])
        if self._draws:
            for name, function in self._seeders.items():
                setattr(random, name, function)
            random.setstate(self._first["random"])
        if self._numpy is not None:
            self._numpy.set_state(self._first["numpy"])

    def changes(self) -> Iterator[tuple[Any, ...]]:
        """Requests that replicate the changes in the candidate."""
        now: dict[str, object] = {
            "capture_stdout": sys.stdout is not self._stdout,
            "stdin": _rest_of(sys.stdin) if sys.stdin is not self._stdin else None,
            "argv": list(sys.argv),
            "environ": dict(_environment),
        }
        for name, value in now.items():
            if value != self._carried[name]:
                self._carried[name] = value
                yield name, value
        if self._numpy is not None:
            state = self._numpy.get_state()
            if self._seeded or repr(state) != self._carried["numpy"]:
                self._carried["numpy"] = repr(state)
                yield "seed", state
        if self._draws:
            yield from self._random_changes()
        yield from self._module_changes()

    def look(self) -> "ProcessState":
        """Look for changes after the last request."""
        for _ in self.changes():
            pass
        return self

    def _random_changes(self) -> Iterator[tuple[Any, ...]]:
        state = random.getstate()
        if self._seeded or state != self._carried["random"]:
            # Numbers that the tests drew after the candidate had drawn others from the same seed.
            self.is_lost = self.is_lost or (not self._seeded and "seed" in self._carried)
            self._carried["random"] = state
            if self._seeded or "seed" in self._carried:
                self._carried["seed"] = True
                yield "seed", state
            self._seeded = False

    def note_modules(self) -> None:
        """Note the state of modules that are new; called around each import of the tests."""
        self._words = self._words or set(_WORD.findall(self._tests))
        if self._draws and self._numpy is None and "numpy" in sys.modules:
            self._numpy = sys.modules["numpy"].random
            self._numpy.seed = self._noted(self._numpy.seed)
            self._first["numpy"] = self._numpy.get_state()
            self._carried["numpy"] = repr(self._first["numpy"])
        for name in (self._words & sys.modules.keys() | {"builtins"}) - self._inside.keys():
            module = sys.modules[name]
            self._inside[name] = _INSIDE[name](module) if name in _INSIDE else None
            self._watched += [[*found, found[-1]] for found in self._attributes(module)]

    def _module_changes(self) -> Iterator[tuple[Any, ...]]:
        """Attributes of modules, and of their classes, that tests have replaced."""
        for name, before in self._inside.items():
            if name in _INSIDE and not self.is_lost:
                self.is_lost = _INSIDE[name](sys.modules[name]) != before
        for watched in self._watched:
            owner, holder, name, value, _ = watched
            now = vars(holder).get(name)
            if now is value:
                continue
            watched[3] = now
            if owner in sys.modules and (callable(now) or isinstance(now, int | float | str)):
                yield "patch", owner, name, now
            else:
                self.is_lost = True

    def _attributes(self, module: ModuleType) -> Iterator[tuple[str, Any, str, object]]:
        """Name of the owner, owner, name and value of attributes that the tests name."""
        name = module.__name__
        for attribute in self._words & vars(module).keys() - _OWN.get(name, frozenset()):
            value = vars(module)[attribute]
            yield name, module, attribute, value
            if isinstance(value, type | ModuleType):
                inner_name = getattr(value, "__name__", "")
                owner = inner_name if isinstance(value, ModuleType) else f"{name}.{inner_name}"
                for inner in self._words & vars(value).keys():
                    yield owner, value, inner, vars(value)[inner]


def _rest_of(stream: object) -> str | None:
    """The unread rest of an in-memory stream; None of another one."""
    return stream.getvalue()[stream.tell() :] if isinstance(stream, io.StringIO) else None
