"""Stage keys: the digest of everything that a stage's result depends on.

A key covers the stage's params, the digests of its inputs and the code of every module of this
repository that the stage imports, so a result is reused only if nothing that it depends on has
changed. Comments, docstrings and formatting are excluded. DVC tracks the same dependencies by content
hash; with keys, a killed run is resumed without DVC.
"""

import ast
import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import grimp

from pipeline_lib.kinds.table import gold_check_modules, judge_modules
from pipeline_lib.store.files import digest_json

_SOURCES = pathlib.Path(__file__).parents[2]
_PACKAGE = "pipeline_lib"
NAMED_IMPORTS: Mapping[str, Callable[[], tuple[str, ...]]] = {
    "pipeline_lib.verify.judges": judge_modules,
    "pipeline_lib.verify.golds": gold_check_modules,
}
"""Modules that import others by name at run time, and those others."""
_FRAME = (
    "pipeline_lib.systems.stage",
    "pipeline_lib.params.whole",
    "pipeline_lib.store.workspace",
)
"""In no stage's code: what other stages are, their params, and the places of folders change no result."""
_WITH_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def stage_key(module: str, *, params: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """Key of the stage that ``module`` computes with ``params`` from ``inputs``.

    Args:
        module: dotted name; its import closure is the code of the stage.
        params: plain values; infrastructure (workers, hosts) does not belong here.
        inputs: digest of each input by name.
    """
    return digest_json(
        {"code": code_digest(module), "params": dict(params), "inputs": dict(inputs)}
    )


@functools.cache
def code_digest(module: str) -> str:
    """Sha256 over the syntax trees of ``module`` and of the repository's modules it imports."""
    return digest_json({name: _syntax(source_file(name)) for name in import_closure(module)})


def _syntax(path: pathlib.Path) -> str:
    return syntax_of(ast.parse(path.read_bytes(), filename=str(path)))


def syntax_of(tree: ast.AST) -> str:
    """The syntax tree without positions and docstrings, including docstrings of attributes; they leave ``tree``."""
    for node in ast.walk(tree):
        if isinstance(node, _WITH_DOCSTRINGS):
            node.body = [statement for statement in node.body if not _is_docstring(statement)]
    return ast.dump(tree, annotate_fields=False)


def _is_docstring(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
        return False
    return isinstance(statement.value.value, str)


def import_closure(module: str) -> list[str]:
    """``module`` and the repository's modules that it imports, directly or not, sorted.

    Imports by name (`NAMED_IMPORTS`) are included.
    """
    return sorted({module, *_import_graph().find_upstream_modules(module)})


@functools.cache
def _import_graph() -> grimp.ImportGraph:
    # No cache folder: the graph takes a fraction of a second, and an install may be read-only.
    graph = grimp.build_graph(_PACKAGE, cache_dir=None, exclude_type_checking_imports=True)
    for module in _FRAME:
        graph.remove_module(module)
    for importer, named in NAMED_IMPORTS.items():
        for module in named():
            graph.add_import(importer=importer, imported=module)
    return graph


def source_file(module: str) -> pathlib.Path:
    """The file of a module of this repository."""
    file = _SOURCES.joinpath(*module.split(".")).with_suffix(".py")
    # A package that became a module leaves a folder with bytecode behind.
    return file if file.exists() else file.with_suffix("") / "__init__.py"
