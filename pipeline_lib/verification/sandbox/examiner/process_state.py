"""Process state set by tests, which the program would share if both ran in one process.

The seed of ``random`` and the capture of standard output are replicated in the candidate. Other
state is not, so a program that fails such tests is not shown to be wrong.
"""

import ast
import contextlib
import random
import re
import sys
from collections.abc import Iterator
from typing import Any

_SEEDS = re.compile(r"\b(seed|setstate)\s*\(")
_DRAWS = re.compile(r"\brandom\.(?!seed\b|setstate\b|getstate\b)\w+\s*\(")
_SETTERS = frozenset(
    [
        "patch",
        "setrecursionlimit",
        "set_int_max_str_digits",
        "getcontext",
        "setcontext",
        "localcontext",
        "setlocale",
        "chdir",
        "putenv",
        "open",
        "catch_warnings",
        "simplefilter",
        "redirect_stderr",
        "TemporaryDirectory",
        "NamedTemporaryFile",
        "mkdtemp",
        "mkstemp",
        "mkdir",
        "makedirs",
        "write_text",
        "signal",
        "setswitchinterval",
        "setattr",
        "getrefcount",
        "tracemalloc",
    ]
)


class ProcessState:
    """Changes of process state since the last request to the candidate."""

    def __init__(self) -> None:
        self._stdout = sys.stdout
        self._captures_stdout = False
        self._seeds = False
        self._state: tuple[Any, ...] = ()
        self._random: tuple[Any, ...] | None = None

    def watch(self, tests: str) -> None:
        """Note the state that these tests can set."""
        self._seeds = _SEEDS.search(tests) is not None
        if "random" in tests:
            self._state = self._random = random.getstate()

    @contextlib.contextmanager
    def as_at_first(self) -> Iterator[None]:
        """The state before the tests; random draws of the tests are then the same again."""
        sys.stdout = self._stdout
        if self._random is not None:
            random.setstate(self._random)
        yield
        sys.stdout = self._stdout

    def changes(self) -> Iterator[tuple[str, object]]:
        """Requests that replicate the changes in the candidate."""
        captures = sys.stdout is not self._stdout
        if captures is not self._captures_stdout:
            self._captures_stdout = captures
            yield "capture_stdout", captures
        if self._seeds:
            state = random.getstate()
            if state != self._state:
                self._state = state
                yield "seed", state


def depends_on_local_state(tests: str) -> bool:
    """True if tests set state, or draw random numbers after a seed, that is not replicated."""
    if _SEEDS.search(tests) and _DRAWS.search(tests):
        return True
    try:
        tree = ast.parse(tests)
    except (SyntaxError, ValueError):
        return True
    return any(_sets_state(node) for node in ast.walk(tree))


def _sets_state(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _SETTERS
        case ast.Assign(targets=targets):
            return any(_is_of_a_module(target) for target in targets)
        case ast.AugAssign(target=target):
            return _is_of_a_module(target)
        case _:
            return False


def _is_of_a_module(target: ast.expr) -> bool:
    """True if the target is an attribute or item of a module of the standard library."""
    if not isinstance(target, ast.Attribute | ast.Subscript):
        return False
    root: ast.expr = target
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    return isinstance(root, ast.Name) and root.id in sys.stdlib_module_names
