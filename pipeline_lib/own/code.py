"""Functions of users by name: ``FILE.py:function``, ``module:function`` or an entry point; and what they depend on.

Nothing here runs the code: it is found and parsed.
"""

import ast
import functools
import importlib.metadata
import importlib.util
import json
import pathlib
import symtable
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline_lib.errors import BadInputError, reason_of, suggestion
from pipeline_lib.own import task_sets
from pipeline_lib.params.environment import environment
from pipeline_lib.store.files import digest_file, digest_json
from pipeline_lib.store.keys import syntax_of

TASKS, VERIFIERS, REWARDS = ("reasonloop.tasks", "reasonloop.verifiers", "reasonloop.rewards")
"""Groups of entry points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file or an installed module with code of a user."""

    file: pathlib.Path
    module: str | None = None
    """Its name where it is imported by name."""
    python: pathlib.Path | None = None
    """The interpreter of the tasks environment, which imports it; None: this one."""
    given: tuple[str, ...] = ()
    """First arguments of its functions: the full name of a task set."""

    @property
    def argument(self) -> dict[str, Any]:
        """For the program that imports it."""
        return {"file": str(self.file), "module": self.module, "given": self.given}

    @property
    def name(self) -> str:
        """For records and errors."""
        return "".join(self.given) or self.file.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A top-level name of a source."""

    source: Source
    name: str


def find_source(text: str, *, key: str, group: str) -> Source:
    """The source that ``text`` names: a file, a task set, an entry point of ``group``, or a module; ``key`` is for errors.

    Raises:
        BadInputError: there is none.
    """
    if text.endswith(".py"):
        file = pathlib.Path(text).expanduser().absolute()
        if not file.is_file():
            raise BadInputError(f"{key}={text}: no such file")
        return Source(file=file)
    if task_sets.is_task_set(text):
        return Source(
            file=pathlib.Path(task_sets.__file__),
            module=task_sets.__name__,
            python=_tasks_python(text),
            given=(text,),
        )
    if (here := str(pathlib.Path.cwd())) not in sys.path:
        sys.path.append(here)
    # A function of a task may be named by the task.
    points = {**_entry_points(TASKS), **_entry_points(group)}
    module = points[text].module if text in points else text
    try:
        spec = importlib.util.find_spec(module) if module.replace(".", "").isidentifier() else None
    except ImportError:
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        known = (
            suggestion(text, points) or f"; entry points of {group}: {', '.join(points) or 'none'}"
        )
        raise BadInputError(
            f"{key}={text}: neither a file that ends in .py, nor an installed module{known}"
        )
    return Source(file=pathlib.Path(spec.origin), module=module)


def _tasks_python(text: str) -> pathlib.Path:
    # Resolved, since the jail shows the folder itself; `python` is a link to another environment's.
    folder = pathlib.Path(environment("REASONLOOP_TASKS") or ".venv-tasks").resolve()
    python = folder / "bin" / "python"
    if not python.exists():
        raise BadInputError(
            f"{text}: there is no {python}; `make tasks-env` installs reasoning-gym and verifiers in .venv-tasks, or set "
            "REASONLOOP_TASKS to the folder of an environment that has them"
        )
    return python


def packages_of(python: pathlib.Path) -> pathlib.Path:
    """The folder of the packages of an environment, by its interpreter."""
    return next(python.parent.parent.glob("lib/python*/site-packages"))


def _entry_points(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    return {one.name: one for one in importlib.metadata.entry_points(group=group)}


def find_function(text: str, *, key: str, group: str) -> Function:
    """The function that ``text`` names, which its source defines.

    Raises:
        BadInputError: there is none.
    """
    where, colon, name = text.rpartition(":")
    if not colon:
        points = _entry_points(group)
        if text not in points:
            raise BadInputError(
                f"{key}={text}: expected FILE.py:function, module:function or an entry point of {group}"
            )
        where, _, name = points[text].value.partition(":")
    source = find_source(where, key=key, group=group)
    if name not in names_of(source):
        raise BadInputError(f"{key}={text}: {source.file} has no {name} at its top level")
    return Function(source=source, name=name)


def names_of(source: Source) -> frozenset[str]:
    """What a source defines at its top level; BadInputError: it is not Python."""
    return frozenset(_definitions(source.file, source.file.stat().st_mtime_ns))


def code_of(function: Function) -> str:
    """Digest of a function, of what it reaches in its file, and of the files beside it that these import.

    Comments, docstrings and other functions change nothing. In the tasks environment the versions of all packages count.
    """
    file, python = function.source.file, function.source.python
    digest = _digest(file, file.stat().st_mtime_ns, function.name)
    return digest if python is None else digest_json([digest, sorted(_packages(python))])


def _packages(python: pathlib.Path) -> Iterator[str]:
    """Names and versions of all packages; of those that are installed as a folder the digests of its files."""
    for one in packages_of(python).glob("*.dist-info"):
        yield one.name
        for origin in one.glob("direct_url.json"):
            folder = json.loads(origin.read_text("utf-8"))["url"].removeprefix("file://")
            files = pathlib.Path(urllib.parse.unquote(folder)).rglob("*.py")
            yield from map(digest_file, files)


@functools.lru_cache(maxsize=64)
def _digest(file: pathlib.Path, changed: int, name: str) -> str:
    defined = _definitions(file, changed)
    reached, beside, open_names = {}, {}, [name]
    while open_names:
        one = open_names.pop()
        if one in reached or one not in defined:
            continue
        reached[one] = [syntax_of(node) for node in defined[one]]
        for node in defined[one]:
            open_names += _read(node)
            for module in _imported(node):
                other = file.parent.joinpath(*module.split(".")).with_suffix(".py")
                if other.is_file() and other != file:
                    beside[module] = syntax_of(_parsed(other))
    return digest_json([dict(sorted(reached.items())), dict(sorted(beside.items()))])


@functools.lru_cache(maxsize=64)
def _definitions(file: pathlib.Path, changed: int) -> Mapping[str, list[ast.stmt]]:
    """The statements of the top level by the names that they bind."""
    del changed  # of the cache alone
    found: dict[str, list[ast.stmt]] = {}
    for node in _parsed(file).body:
        for name in _bound(node):
            found.setdefault(name, []).append(node)
    return found


def _parsed(file: pathlib.Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes(), filename=str(file))
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        raise BadInputError(f"{file}{line}: not Python ({reason_of(error)})") from error
    except OSError as error:
        raise BadInputError(f"{file}: cannot be read ({reason_of(error)})") from error


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    else:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                yield inner.id


def _read(node: ast.stmt) -> list[str]:
    """Names of the top level that a statement reads, itself or in its functions; names of its own are none."""
    found: list[str] = []
    tables = [symtable.symtable(ast.unparse(node), "", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        is_top = table.get_type() == "module"
        found += [
            one.get_name()
            for one in table.get_symbols()
            if one.is_referenced() and (is_top or one.is_global())
        ]
    return found


def _imported(node: ast.stmt) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import):
            yield from (alias.name for alias in inner.names)
        elif isinstance(inner, ast.ImportFrom) and inner.module:
            yield inner.module
