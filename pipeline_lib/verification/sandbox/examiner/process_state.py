"""State that tests set in their own process and a program would see if there were only one.

The seed of ``random`` and the capture of standard output are carried across. Other state is not, so
a program that fails such tests has not been shown to be wrong.
"""

import ast
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


class SharedState:
    """What tests have changed since the candidate last saw it."""

    def __init__(self) -> None:
        self._stdout = sys.stdout
        self._listens = False
        self._seeds = False
        self._state: tuple[Any, ...] = ()

    def watch(self, tests: str) -> None:
        """Note which state these tests can set."""
        self._seeds = _SEEDS.search(tests) is not None
        if self._seeds:
            self._state = random.getstate()

    def changes(self) -> Iterator[tuple[str, object]]:
        """The requests that let the candidate see what has changed."""
        listens = sys.stdout is not self._stdout
        if listens is not self._listens:
            self._listens = listens
            yield "listen", listens
        if self._seeds:
            state = random.getstate()
            if state != self._state:
                self._state = state
                yield "seed", state


def relies_on_own_state(tests: str) -> bool:
    """Whether tests set something, or draw after a seed, in a way that is not carried across."""
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
    """Whether the target is an attribute or item of a module of the standard library."""
    if not isinstance(target, ast.Attribute | ast.Subscript):
        return False
    root: ast.expr = target
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    return isinstance(root, ast.Name) and root.id in sys.stdlib_module_names
