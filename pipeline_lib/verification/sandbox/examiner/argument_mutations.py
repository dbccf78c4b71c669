"""Mutations of arguments that tests read as the result of a call, found in the source of the tests.

``x = [2, 1]; f(x); assert x == [1, 2]`` reads the mutation of ``x``. In ``assert f(x) == max(x)``
the list is the tests' data: a program that mutates it must not change what its result is compared
with.
"""

import ast
import builtins
import re
import sys
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

TESTS_FILE = "<tests>"
_MAX_DEPTH = 3
_MUTATORS = frozenset(
    name for kind in (list, dict, set, bytearray, deque) for name in dir(kind) if name[0] != "_"
) - frozenset(name for kind in (tuple, str, frozenset, range) for name in dir(kind))


class ArgumentMutations:
    """Reads of mutated arguments in the source of tests, which is parsed at the first mutation.

    Args:
        tests: The source.
        entry_point: The function under test.
    """

    def __init__(self, tests: str, entry_point: str) -> None:
        self.tests = tests
        self._entry_point = entry_point
        self._names: _ReadNames | None = None
        self.has_lost = False
        """True if tests read, in another way, an argument whose mutation was not copied back."""

    def identity_fault(self, tree: ast.Module) -> str:
        """The reason why tests depend on the identity of values that crossed; empty if they do not."""
        if not _ASKS_IDENTITY.search(self.tests):
            return ""
        names = self._names = self._names or _ReadNames(self.tests, self._entry_point)
        if any(map(names.is_identity_test, ast.walk(tree))):
            return "the tests ask for the identity of a value that crossed"
        changes = [change for node in ast.walk(tree) for change in _changed(node)]
        if any(names.joins_results(*change) for change in changes):
            return "the tests change a value that crossed, and read another"
        return ""

    def positions_read(self, arguments: Sequence[object], *, returned_none: bool) -> set[int]:
        """Positions of the arguments that are read as the result of the current call.

        Args:
            arguments: Arguments of the call, as the tests hold them.
            returned_none: The call returned None, as in-place functions do.
        """
        if self._names is None:
            self._names = _ReadNames(self.tests, self._entry_point)
        frame = _frame_of_tests()
        if frame is None:
            return set()
        asked = returned_none or _position(frame) in self._names.discarded
        positions_read = set()
        for index, argument in enumerate(arguments):
            if asked and _is_in(frame, argument, self._names.as_result):
                positions_read.add(index)
            elif _is_in(frame, argument, self._names.otherwise):
                self.has_lost = True
        return positions_read


_ASKS_IDENTITY = re.compile(
    rf"\b(is|id)\b|\.({'|'.join(sorted(_MUTATORS))})\(|\]\s*[-+*/%&|^@]{{0,2}}=[^=]|\bdel\b"
)


class _ReadNames:
    """Variables of the tests that are read other than as arguments of the candidate, by use."""

    def __init__(self, tests: str, entry_point: str) -> None:
        tree = ast.parse(tests)
        self._candidates = {entry_point, *_parameters_of_check(tree)}
        self._results: set[str] = set()
        while self._add_results(tree):
            pass
        calls = [
            node for node in ast.walk(tree) if isinstance(node, ast.Call) and self._is_call(node)
        ]
        self._calls = calls
        inside = {id(node) for call in calls for node in ast.walk(call)}
        # A table of cases that is only iterated over is not read again.
        inside |= {
            id(node.iter)
            for node in ast.walk(tree)
            if isinstance(node, ast.For | ast.comprehension)
        }
        self._given = {name for call in calls for name in _loaded(call)} - self._candidates
        self._reads = [
            (node.lineno, node.id)
            for node in ast.walk(tree)
            if isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and id(node) not in inside
        ]
        self.otherwise = {name for _, name in self._reads}
        asserts = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
        self.as_result = {
            name for node in asserts if not self._is_result(node) for name in _loaded(node)
        }
        self.discarded = {
            (node.value.lineno, node.value.col_offset)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and self._is_call(node.value)
        }

    def is_identity_test(self, node: ast.AST) -> bool:
        """True for ``is`` between a result and what is neither a constant nor an argument."""
        match node:
            case ast.Call(func=ast.Name(id="id")):
                return True
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()], comparators=[right]):
                sides = [side for side in (left, right) if self._is_result(side)]
                others = [side for side in (left, right) if not self._is_result(side)]
            case _:
                return False
        if not sides or any(map(_is_one_everywhere, others)):
            return False
        # A result that is an argument itself is carried as such.
        whole = all(isinstance(side, ast.Name) or self._is_call(side) for side in sides)
        return not (whole and len(others) == 1 and isinstance(others[0], ast.Name))

    def joins_results(self, name: str, line: int) -> bool:
        """True if ``name`` is a result that is changed in this line, and an argument is read later.

        Or the other way around. In one process the two may share parts.
        """
        given = self._given - self._results
        others = given if name in self._results else self._results if name in given else set()
        is_after = any(call.lineno < line for call in self._calls)
        return is_after and any(at > line and read in others for at, read in self._reads)

    def _is_call(self, node: ast.AST) -> bool:
        """True if the node calls the candidate or a result of it."""
        if not isinstance(node, ast.Call):
            return False
        function = node.func
        while isinstance(function, ast.Attribute | ast.Call):
            function = function.value if isinstance(function, ast.Attribute) else function.func
        return isinstance(function, ast.Name) and function.id in self._candidates | self._results

    def _is_result(self, node: ast.AST) -> bool:
        """True if an expression contains a result of the candidate."""
        return any(self._is_call(n) for n in ast.walk(node)) or bool(_loaded(node) & self._results)

    def _add_results(self, tree: ast.Module) -> bool:
        """Add variables that are assigned results; True if there was a new one."""
        before = len(self._results)
        for node in ast.walk(tree):
            match node:
                case ast.Assign() | ast.AugAssign() | ast.NamedExpr() if self._is_result(
                    node.value
                ):
                    self._results |= _stored(node)
                case ast.For(iter=iterated, target=target) if self._is_result(iterated):
                    self._results |= _stored(target)
        return len(self._results) > before


def _is_one_everywhere(node: ast.expr) -> bool:
    """True for a constant, and for a builtin type."""
    return isinstance(node, ast.Constant) or (
        isinstance(node, ast.Name) and hasattr(builtins, node.id)
    )


def _changed(node: ast.AST) -> Iterator[tuple[str, int]]:
    """The variable whose value is changed in place, and the line."""
    match node:
        case ast.Call(func=ast.Attribute(value=target, attr=name)) if name in _MUTATORS:
            line = node.lineno
        case ast.Subscript(value=target, ctx=ast.Store() | ast.Del()):
            line = node.lineno
        case _:
            return
    while isinstance(target, ast.Subscript | ast.Attribute):
        target = target.value
    if isinstance(target, ast.Name):
        yield target.id, line


def _parameters_of_check(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "check":
            yield from (argument.arg for argument in node.args.args[:1])


def _loaded(node: ast.AST) -> set[str]:
    names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Load)}


def _stored(node: ast.AST) -> set[str]:
    names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _frame_of_tests() -> FrameType | None:
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - as in remote_exceptions
    while frame is not None and frame.f_code.co_filename != TESTS_FILE:
        frame = frame.f_back
    return frame


def _position(frame: FrameType) -> tuple[int | None, int | None]:
    code: CodeType = frame.f_code
    line, _, column, _ = list(code.co_positions())[frame.f_lasti // 2]
    return line, column


def _is_in(frame: FrameType, wanted: object, names: set[str]) -> bool:
    variables = {**frame.f_globals, **frame.f_locals}
    return any(_holds(variables.get(name), wanted, _MAX_DEPTH) for name in names)


def _holds(value: object, wanted: object, depth: int) -> bool:
    if value is wanted:
        return True
    if depth == 0 or not isinstance(value, list | tuple | dict):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return any(_holds(part, wanted, depth - 1) for part in parts)


def overwrite(target: Any, content: Any) -> None:
    """Replace the content of a container by that of the candidate's copy, if the types agree."""
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
