"""State that a program would share with its tests if both ran in one process: arguments, and the process itself.

``x = [2, 1]; f(x); assert x == [1, 2]`` reads the mutation of ``x``, which is found in the source of the
tests. In ``assert f(x) == max(x)`` the list is the tests' data: a program that mutates it must not
change what its result is compared with.

Other changes of the tests are found by looking at their process. Of it the seed of ``random``,
standard input and output, arguments and environment are replicated in the candidate; attributes that
tests replace by functions or plain values are, too. A program that fails tests that changed something
else is not shown to be wrong.
"""

import ast
import builtins
import functools
import importlib
import io
import os
import re
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import FrameType, ModuleType
from typing import Any

TESTS_FILE = "<tests>"
_MAX_DEPTH = 3
_MUTATORS = frozenset(
    name for kind in (list, dict, set, bytearray, deque) for name in dir(kind) if name[0] != "_"
) - frozenset(name for kind in (tuple, str, frozenset, range) for name in dir(kind))
_ASKS_IDENTITY = re.compile(
    rf"\b(is|id|del)\b|\.({'|'.join(sorted(_MUTATORS))})\(|\]\s*[-+*/%&|^@]{{0,2}}=[^=]"
)


class ReadNames:
    """Variables of the tests that are read other than as arguments of the candidate, by use."""

    def __init__(self, tests: str, entry_point: str) -> None:
        tree = ast.parse(tests)
        nodes = self.nodes = list(ast.walk(tree))
        checks = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "check"]
        self._candidates = {entry_point, *(one.arg for n in checks for one in n.args.args[:1])}
        self._results: set[str] = set()
        while self._add_results(nodes):
            pass
        self._calls = [node for node in nodes if isinstance(node, ast.Call) and self._is_call(node)]
        self._given = {name for call in self._calls for name in _names(call)} - self._candidates
        unread = {id(node) for call in self._calls for node in ast.walk(call)}
        # A table of cases that is only iterated over, beside others or numbered, is not read again.
        tables = [n.iter for n in nodes if isinstance(n, ast.For | ast.comprehension)]
        for table in tables:
            if isinstance(table, ast.Call) and root_name(table.func) in {"enumerate", "zip"}:
                tables += table.args
        unread |= set(map(id, tables))
        self._reads = [
            (node.lineno, node.id)
            for node in nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
            if id(node) not in unread
        ]
        self._otherwise = {name for _, name in self._reads}
        self._as_result = {
            name
            for node in nodes
            if isinstance(node, ast.Assert) and not self._is_result(node)
            for name in _names(node)
        }
        self._discarded = {
            (node.value.lineno, node.value.col_offset)
            for node in nodes
            if isinstance(node, ast.Expr) and self._is_call(node.value)
        }

    def positions_read(self, arguments: Sequence[object], result: object) -> tuple[set[int], bool]:
        """Positions of the arguments that are read as the result of the current call.

        The second value is true if tests read another argument in another way.
        """
        frame: FrameType | None = sys._getframe()  # noqa: SLF001 - as in rewriting
        while frame is not None and frame.f_code.co_filename != TESTS_FILE:
            frame = frame.f_back
        if frame is None:
            return set(), False
        variables = {**frame.f_globals, **frame.f_locals}

        def among(names: set[str]) -> set[int]:
            held = [
                part for name in names for part in inside(variables.get(name), depth=_MAX_DEPTH)
            ]
            return {n for n, one in enumerate(arguments) if any(one is part for part in held)}

        line, _, column, _ = list(frame.f_code.co_positions())[frame.f_lasti // 2]
        asked = result is None or (line, column) in self._discarded
        read = among(self._as_result) if asked else set()
        return read, bool(among(self._otherwise) - read)

    def is_identity_test(self, node: ast.AST) -> bool:
        """True for ``is`` between a result and what is no constant, builtin type or argument."""
        match node:
            case ast.Call(func=ast.Name(id="id")):
                return True
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()], comparators=[right]):
                sides = (left, right)
            case _:
                return False
        num_results = sum(map(self._is_result, sides))
        # A result that is an argument itself is carried as such.
        may_be_argument = num_results == 1 and all(
            isinstance(side, ast.Name) or self._is_call(side) for side in sides
        )
        has_constant = any(
            isinstance(side, ast.Constant) or hasattr(builtins, getattr(side, "id", ""))
            for side in sides
        )
        return num_results > 0 and not may_be_argument and not has_constant

    def joins_results(self, node: ast.AST) -> bool:
        """True if a result is changed in place after a call, and an argument is read later.

        Or the other way around. In one process the two may share parts.
        """
        match node:
            case ast.Call(func=ast.Attribute(value=changed, attr=name)) if name in _MUTATORS:
                line = node.lineno
            case ast.Subscript(value=changed, ctx=ast.Store() | ast.Del()):
                line = node.lineno
            case _:
                return False
        given, name = self._given - self._results, root_name(changed)
        others = given if name in self._results else self._results if name in given else set()
        is_after = any(call.lineno < line for call in self._calls)
        return is_after and any(at > line and read in others for at, read in self._reads)

    def _is_call(self, node: ast.AST) -> bool:
        """True if the node calls the candidate or a result of it."""
        if not isinstance(node, ast.Call):
            return False
        known = self._candidates | self._results
        return root_name(node.func) in known or self._is_call(_root(node.func))

    def _is_result(self, node: ast.AST) -> bool:
        """True if an expression contains a result of the candidate."""
        return any(map(self._is_call, ast.walk(node))) or bool(_names(node) & self._results)

    def _add_results(self, nodes: list[ast.AST]) -> bool:
        """Add variables that are assigned results; True if there was a new one."""
        before = len(self._results)
        for node in nodes:
            if isinstance(node, ast.Assign | ast.AugAssign | ast.NamedExpr):
                if self._is_result(node.value):
                    self._results |= _names(node, ast.Store)
            elif isinstance(node, ast.For) and self._is_result(node.iter):
                self._results |= _names(node.target, ast.Store)
        return len(self._results) > before


read_names = functools.lru_cache(maxsize=1)(ReadNames)
"""The tests are parsed once for all replays, and only when they are asked for."""


def identity_fault(tests: str, entry_point: str) -> str:
    """The reason why tests depend on the identity of values that crossed; empty if they do not."""
    names = read_names(tests, entry_point) if _ASKS_IDENTITY.search(tests) else None
    if names and any(map(names.is_identity_test, names.nodes)):
        return "the tests ask for the identity of a value that crossed"
    if names and any(map(names.joins_results, names.nodes)):
        return "the tests change a value that crossed, and read another"
    return ""


def root_name(node: ast.expr) -> str:
    """The variable at the beginning of an expression such as ``a.b[c].d``; empty if there is none."""
    root = _root(node)
    return root.id if isinstance(root, ast.Name) else ""


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def _names(node: ast.AST, context: type[ast.expr_context] = ast.Load) -> set[str]:
    names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, context)}


def inside(
    value: object, kinds: tuple[type, ...] = (list, tuple, dict), depth: int = sys.maxsize
) -> Iterator[object]:
    """A value and its parts, down to a depth."""
    yield value
    if depth and isinstance(value, kinds):
        for part in value.values() if isinstance(value, dict) else value:  # type: ignore[attr-defined]
            yield from inside(part, kinds, depth - 1)


def overwrite(target: Any, content: Any) -> None:
    """Replace the content of a container by the content of the candidate's copy, if the types agree."""
    if type(content) is not type(target):
        return
    if isinstance(target, tuple):
        for part, other in zip(target, content, strict=False):
            overwrite(part, other)
    elif isinstance(target, list | bytearray | array):
        target[:] = content
    elif isinstance(target, dict | set | deque):
        target.clear()
        (target.extend if isinstance(target, deque) else target.update)(content)
    elif type(target).__module__ == "numpy" and target.shape == content.shape:
        target[...] = content
    elif hasattr(target, "__dict__"):
        vars(target).update(vars(content))


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
