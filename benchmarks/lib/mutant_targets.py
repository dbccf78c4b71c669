"""Which modules are mutated, in which order, and which test files are asked first."""

import ast
import fnmatch
import itertools
import pathlib
import random
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from benchmarks.lib.mutant_operators import Mutant, find_mutants

LIBRARY = "pipeline_lib"
SYSTEMS = "systems"
LEFT_OUT = {
    "pages": [
        "*/page.py",
        "*pages/tables.py",
        "*loop/report.py",
    ],
    "plots and pictures": [
        "*reporting/*plots.py",
        "*pages/*figures.py",
        "*/evaluation/pictures.py",
    ],
    "cards and examples to be read": [
        *("*exports/model_card.py", "*/control_report.py", "*reporting/examples.py"),
    ],
    "messages": [
        *(
            "errors.py",
            "terminal_text.py",
            "*/wording.py",
            "*study/names.py",
            "*study/headline.py",
            "*reporting/control_text.py",
        ),
        "*/library_logs.py",
    ],
    "version numbers": ["*/version.py"],
    "their tests need Docker": ["*/sandbox/docker.py"],
    "their tests need a CUDA device": [
        "*/gpus.py",
    ],
}
"""Patterns of modules that are not mutated, by reason; all others compute."""
MODULE_NAME = re.compile(r"[a-z_]\w*(\.\w+)+")
TREES = (LIBRARY, "flows", "tasks", "benchmarks", "tests")


def is_target(inside: str) -> bool:
    """True for a module, by its path within the library, in which mutants are made."""
    return not any(fnmatch.fnmatch(inside, p) for p in itertools.chain(*LEFT_OUT.values()))


def package_of(path: str) -> str:
    """The library's package of a module's path, or its system; ``modules`` for those outside packages."""
    parts = pathlib.PurePosixPath(path).parts
    return (
        parts[2 if parts[1] == SYSTEMS and len(parts) > 3 else 1] if len(parts) > 2 else "modules"
    )


def sample_order(tree: pathlib.Path, *, seed: int, only: Iterable[str] = ("",)) -> list[Mutant]:
    """All mutants of a tree, so ordered that each prefix is spread over the packages by lines.

    Within a package the order is random. Packages take turns as seats are given by Sainte-Laguë: the
    i-th mutant of a package of L lines comes at (i + 1/2) / L.
    """
    lines: defaultdict[str, int] = defaultdict(int)
    mutants: defaultdict[str, list[Mutant]] = defaultdict(list)
    for path in sorted((tree / LIBRARY).rglob("*.py")):
        name = path.relative_to(tree).as_posix()
        inside = name.removeprefix(f"{LIBRARY}/")
        if is_target(inside) and any(part in name for part in only):
            source = path.read_text("utf-8")
            lines[package_of(name)] += source.count("\n")
            mutants[package_of(name)] += find_mutants(source, name)
    placed = []
    for package, found in mutants.items():
        random.Random(f"{seed} {package}").shuffle(found)
        placed += [((i + 0.5) / lines[package], package, one) for i, one in enumerate(found)]
    return [mutant for *_, mutant in sorted(placed, key=lambda one: one[:2])]


@dataclass(kw_only=True)
class TestFiles:
    """Test files of a tree, in the order in which a mutant is shown to them."""

    tree: pathlib.Path
    imports: dict[str, set[str]] = field(init=False)
    """What each file of the tree imports, as paths of files of the tree."""
    __test__ = False

    def __post_init__(self) -> None:
        found = [p for top in TREES for p in sorted((self.tree / top).rglob("*.py"))]
        paths = {path: path.relative_to(self.tree).as_posix() for path in found}
        known = set(paths.values())
        self.imports = {
            name: known.intersection(map(_as_path, _names(path)))
            | known.intersection(f"{folder}/conftest.py" for folder in _folders(name))
            for path, name in paths.items()
        }

    def near(self, module: str) -> list[str]:
        """Files that import the module themselves: first of its name, then with few other imports."""
        return [path for path, distance in self._ranked(module) if distance == 1]

    def far(self, module: str) -> list[str]:
        """The others of the package's folder, by distance; of any folder if it has none."""
        others = [path for path, distance in self._ranked(module) if distance > 1]
        own = [path for path in others if path.startswith(_own_folder(module))]
        reached = {path for path, _ in self._ranked(module)}
        unreached = {one for one in self.imports if _is_test(one)} - reached
        return own + sorted(p for p in unreached if p.startswith(_own_folder(module))) or others

    def _ranked(self, module: str) -> list[tuple[str, int]]:
        """Unit tests that reach the module by imports, with the distance; the nearest first."""
        found = [
            (distance, self._rank(path, module), path)
            for path, distance in self._distances(module).items()
            if path.startswith("tests/unit/")
        ]
        return [(path, distance) for distance, _, path in sorted(found)]

    def _distances(self, module: str) -> dict[str, int]:
        """Test files that import a module, with the number of imports between."""
        importers: defaultdict[str, list[str]] = defaultdict(list)
        for path, names in self.imports.items():
            for name in names:
                importers[name].append(path)
        found = {module: 0}
        reached = deque([module])
        while reached:
            for path in importers[one := reached.popleft()]:
                if path not in found:
                    found[path] = found[one] + 1
                    reached.append(path)
        return {path: distance for path, distance in found.items() if _is_test(path)}

    def _rank(self, path: str, module: str) -> int:
        """0 for the test file of the module's name; otherwise what it imports, its own package first."""
        if path.endswith(f"/test_{pathlib.PurePosixPath(module).stem}.py"):
            return 0
        elsewhere = not path.startswith(_own_folder(module))
        return 1 + len(self.imports[path]) + 1000 * elsewhere


def _own_folder(module: str) -> str:
    return f"tests/unit/{package_of(module)}/"


def _is_test(path: str) -> bool:
    return path.rpartition("/")[2].startswith("test_")


def _folders(path: str) -> list[str]:
    """Folders above a test file, whose fixtures it uses."""
    above = pathlib.PurePosixPath(path).parents
    return [str(one) for one in above] if path.startswith("tests/") else []


def _as_path(name: str) -> str:
    return f"{name.replace('.', '/')}.py"


def _names(path: pathlib.Path) -> Iterator[str]:
    """Dotted names that a file imports or holds as a text."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names)
            case ast.ImportFrom(module=str() as module, names=names):
                yield module
                yield from (f"{module}.{one.name}" for one in names)
            case ast.Constant(value=str() as text) if MODULE_NAME.match(text):
                yield text.partition(":")[0]
            case _:
                pass
