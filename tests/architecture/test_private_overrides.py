"""Private names of TRL and transformers are overridden in one module, each with its reason."""

import ast
import functools
import importlib
import inspect
import pathlib
import textwrap
import tomllib
from collections.abc import Iterator

from benchmarks.lib.repository import REPOSITORY

LIBRARIES = ("trl", "transformers")
MODULE = "pipeline_lib.train.online.trl_internals"
OVERRIDES = {
    "GroupAdvantages._calculate_rewards",
    "GroupAdvantages._generate_and_score_completions",
    "VerifiedGrpoTrainer._compute_loss",
    "VerifiedGrpoTrainer._generate_and_score_completions",
    "TokenizedDpoTrainer._prepare_dataset",
    "UnpaddedLogprobs._compute_loss",
    "UnpaddedLogprobs._get_per_token_logps_and_entropies",
}


def modules_on_the_libraries() -> Iterator[str]:
    """Modules of the project that import one of the libraries."""
    for path in sorted((REPOSITORY / "pipeline_lib").rglob("*.py")):
        imports = [
            name
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            for name in imported_names(node)
        ]
        if any(name.split(".")[0] in LIBRARIES for name in imports):
            yield dotted(path)


def imported_names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def dotted(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)


def classes_on_the_libraries() -> Iterator[type]:
    """Classes of the project with a base of one of the libraries."""
    for name in modules_on_the_libraries():
        for _, found in inspect.getmembers(importlib.import_module(name), inspect.isclass):
            if found.__module__ == name and foreign_bases(found):
                yield found


def foreign_bases(found: type) -> list[type]:
    return [base for base in found.__mro__ if base.__module__.split(".")[0] in LIBRARIES]


@functools.cache
def defined_names(owner: type) -> set[str]:
    """Names that a class defines: in its body, or as attributes of ``self`` in its methods."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    assigned = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    return assigned | set(vars(owner)) - {"_abc_impl"}


def private_overrides() -> set[tuple[str, str]]:
    """Module, and class with name, of each private name that a class defines over a library's.

    A mixin defines over the bases of the classes that it is mixed into.
    """
    return {
        (base.__module__, f"{base.__qualname__}.{name}")
        for found in classes_on_the_libraries()
        for base in found.__mro__
        if base.__module__.startswith("pipeline_lib.")
        for name in defined_names(base)
        if name.startswith("_") and not name.startswith("__")
        if any(name in defined_names(foreign) for foreign in foreign_bases(found))
    }


def test_private_overrides_are_in_one_module():
    """An override in any other class, deliberate or accidental, is listed here as a failure."""
    assert private_overrides() == {(MODULE, name) for name in OVERRIDES}


def test_each_override_has_a_reason():
    """Each has its own docstring, not the library's."""
    module = importlib.import_module(MODULE)
    for override in OVERRIDES:
        owner, name = override.split(".")
        assert vars(getattr(module, owner))[name].__doc__


def test_the_libraries_are_capped_to_a_minor_version():
    """Private names change without notice, so each cap is the next minor version."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    pinned = dict(
        line.split("==")
        for line in (REPOSITORY / "requirements/app.txt").read_text("utf-8").splitlines()
        if "==" in line
    )
    for library in LIBRARIES:
        major, minor, _ = pinned[library].split(".")
        cap = f"{library}>={major}.{minor},<{major}.{int(minor) + 1}"
        assert cap in project["dependencies"]
