"""State of the tests' process that a program would share if both ran in one.

What tests changed is found by looking at their process, not at their source. Of it the seed of
``random``, standard input and output, arguments and environment are replicated in the candidate;
attributes that tests replace by functions or plain values are, too. A program that fails tests
that changed something else is not shown to be wrong.
"""

import functools
import importlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

_environment = os.environ  # noqa: TID251 - of the tests
_GENERATORS = {"random": ("getstate", "setstate"), "numpy.random": ("get_state", "set_state")}
"""Functions that get and set the state of a generator of random numbers, by module."""
_INSIDE: dict[str, Callable[[Any], object]] = {
    "decimal": lambda module: repr(module.getcontext()),
    "locale": lambda module: module.setlocale(module.LC_ALL),
    "csv": lambda module: (module.list_dialects(), module.field_size_limit()),
    "logging": lambda module: [
        (vars(one).get("level"), list(vars(one).get("handlers", ())))
        for one in [module.root, *module.root.manager.loggerDict.values()]
    ],
    "os": lambda module: module.getcwd(),
    "signal": lambda module: [module.getsignal(number) for number in range(1, 32)],
    "sys": lambda module: (module.getrecursionlimit(), module.get_int_max_str_digits()),
    "warnings": lambda module: list(module.filters),
}
"""State that is no attribute, by module."""
_OWN = {"sys": {"stdin", "stdout", "stderr", "argv"}, "os": {"environ"}}
"""Attributes that are replicated otherwise."""


class ProcessState:
    """Changes of process state since the last request, in modules that the tests name."""

    def __init__(self, tests: str) -> None:
        self.may_remain = False
        """True if tests imported a module, whose state outlives them."""
        self._is_lost = False
        self._tests = tests
        self._words: set[str] = set()
        self._streams = {name: getattr(sys, name) for name in ("stdin", "stdout", "stderr")}
        self._first: dict[str, Any] = {"argv": list(sys.argv), "environ": dict(_environment)}
        self._carried = {"capture_stdout": False, "stdin": None, **self._first}
        self._seeders: list[tuple[Any, str, Callable[..., None]]] = []
        self._is_seeded = self._shares_seed = False
        self._watched: list[list[Any]] = []
        self._inside: dict[str, object] = {}

    def restore(self) -> None:
        """Set the state that was before the tests."""
        for name, stream in self._streams.items():
            setattr(sys, name, stream)
        sys.argv = list(self._first["argv"])
        for _, holder, name, _, first in self._watched:
            if vars(holder).get(name) is not first:
                setattr(holder, name, first)
        if _environment != self._first["environ"]:
            _environment.clear()
            _environment.update(self._first["environ"])
        for module, name, function in self._seeders:
            setattr(module, name, function)
            if name != "seed":
                function(self._first[module.__name__])

    def changes(self) -> Iterator[tuple[Any, ...]]:
        """Requests that replicate the changes in the candidate."""
        if not self.may_remain:
            return
        stdin = sys.stdin
        now: dict[str, object] = {
            "capture_stdout": sys.stdout is not self._streams["stdout"],
            # The unread rest of a stream in memory.
            "stdin": stdin.getvalue()[stdin.tell() :] if isinstance(stdin, io.StringIO) else None,
            "argv": list(sys.argv),
            "environ": dict(_environment),
        }
        for name, value in now.items():
            if value != self._carried[name]:
                self._carried[name] = value
                yield name, value
        yield from self._random_changes()
        yield from self._module_changes()

    def has_lost(self) -> bool:
        """True if a change up to now was not replicated."""
        list(self.changes())
        return self._is_lost

    def _random_changes(self) -> Iterator[tuple[Any, ...]]:
        is_seeded, self._is_seeded = self._is_seeded, False
        has_shared = self._shares_seed
        self._shares_seed = self._shares_seed or is_seeded
        for name in (name for name in _GENERATORS if name in self._carried):
            state = getattr(sys.modules[name], _GENERATORS[name][0])()
            if is_seeded or repr(state) != self._carried[name]:
                self._carried[name] = repr(state)
                # Numbers that the tests drew after the candidate had drawn others from the same seed.
                self._is_lost |= has_shared and not is_seeded and name == "random"
                if self._shares_seed:
                    yield "seed", state

    def note_modules(self) -> None:
        """Note the state of modules that are new; called around each import of the tests."""
        self.may_remain = True
        self._words = self._words or set(re.findall(r"\w+", self._tests))
        if "random" in self._words:
            for name in _GENERATORS.keys() - self._carried.keys():
                if name.partition(".")[0] in sys.modules:
                    # NumPy itself imports it when it is used.
                    self._note_generator(importlib.import_module(name), *_GENERATORS[name])
        for name in (self._words & sys.modules.keys() | {"builtins"}) - self._inside.keys():
            module = sys.modules[name]
            self._inside[name] = _INSIDE[name](module) if name in _INSIDE else None
            self._watched += [[*found, found[-1]] for found in self._attributes(module)]

    def _note_generator(self, module: Any, getter: str, setter: str) -> None:
        self._first[module.__name__] = getattr(module, getter)()
        self._carried[module.__name__] = repr(self._first[module.__name__])
        for name in ("seed", setter):
            # Tests may set the same seed again, which no look at the state would show.
            function = getattr(module, name)
            self._seeders.append((module, name, function))
            setattr(module, name, functools.partial(self._seed, function))

    def _seed(self, function: Callable[..., None], *arguments: Any, **options: Any) -> None:
        self._is_seeded = True
        function(*arguments, **options)

    def _module_changes(self) -> Iterator[tuple[Any, ...]]:
        """Attributes of modules, and of their classes, that tests have replaced."""
        for name, before in self._inside.items():
            if name in _INSIDE and not self._is_lost:
                self._is_lost = _INSIDE[name](sys.modules[name]) != before
        for watched in self._watched:
            owner, holder, name, value, _ = watched
            now = vars(holder).get(name)
            if now is value:
                continue
            watched[3] = now
            if owner in sys.modules and (callable(now) or isinstance(now, int | float | str)):
                yield "patch", owner, name, now
            else:
                self._is_lost = True

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
