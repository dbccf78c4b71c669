"""Mutations of arguments that tests read as the result of a call, found in the source of the tests.

``x = [2, 1]; f(x); assert x == [1, 2]`` reads the mutation of ``x``. In ``assert f(x) == max(x)``
the list is the tests' data: a program that mutates it must not change what its result is compared
with.
"""

import ast
import builtins
import functools
import re
import sys
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from types import FrameType
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
        # A table of cases that is only iterated over is not read again.
        unread |= {id(n.iter) for n in nodes if isinstance(n, ast.For | ast.comprehension)}
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

        asked = result is None or _position(frame) in self._discarded
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


def _position(frame: FrameType) -> tuple[int | None, int | None]:
    line, _, column, _ = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    return line, column


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
