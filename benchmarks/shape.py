"""Size and shape of the source tree: lines, statements, types, modules, words; beside another checkout.

Product lines are those in `flows`, `tasks` and `pipeline_lib`. Nothing of the product is imported,
so any commit can be counted.

    git worktree add /tmp/before b9dc180
    python -m benchmarks.shape --against /tmp/before
"""

import ast
import pathlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.table import Table

from benchmarks.lib.command_line import add_output, make_parser, write_results

PRODUCT = ("flows", "tasks", "pipeline_lib")
TYPED_BASES = ("BaseModel", "NamedTuple", "TypedDict")
PAGE_NAMES = {"evaluate.py", "page.py", "figures.py", "tables.py", "comparison.py"}
GENITIVES = re.compile(r"\b(?:that|those) of\b", re.IGNORECASE)
PATTERNS = {
    "places of confidence_level": re.compile(r"\blevel=[\w.]*\bconfidence_level\b"),
    'flows named "stage"': re.compile(r"@flow\(name=\"stage\""),
    "lines with uses_engine": re.compile(r"^.*\buses_engine\b", re.MULTILINE),
    "that of, those of: code": GENITIVES,
}


def python_files(root: pathlib.Path, *folders: str) -> list[pathlib.Path]:
    """The Python files below ``folders``."""
    return sorted(path for folder in folders for path in (root / folder).rglob("*.py"))


def line_kinds(text: str, tree: ast.Module) -> Counter[str]:
    """Lines by kind. Blank lines in a docstring belong to it; docstrings of attributes count."""
    kinds = [_plain_kind(line.strip()) for line in text.splitlines()]
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and (kind := _statement_kind(node)):
            end = node.end_lineno or node.lineno
            kinds[node.lineno - 1 : end] = [kind] * (end - node.lineno + 1)
    return Counter(kinds)


def _plain_kind(line: str) -> str:
    return ("comment" if line.startswith("#") else "code") if line else "blank"


def _statement_kind(node: ast.stmt) -> str | None:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return "import"
    constant = node.value if isinstance(node, ast.Expr) else None
    is_text = isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    return "docstring" if is_text else None


def typed_classes(classes: Iterable[ast.ClassDef]) -> Counter[str]:
    """Dataclasses, and classes that derive from one of TYPED_BASES, directly or not, by kind."""
    waiting, kinds, found = list(classes), {base: base for base in TYPED_BASES}, Counter[str]()
    while new := {node: kind for node in waiting if (kind := _typed_kind(node, kinds))}:
        found.update(new.values())
        kinds |= {node.name: kind for node, kind in new.items() if kind != "dataclass"}
        waiting = [node for node in waiting if node not in new]
    return found


def _typed_kind(node: ast.ClassDef, kinds: Mapping[str, str]) -> str | None:
    if "dataclass" in map(_name, node.decorator_list):
        return "dataclass"
    return next((kinds[name] for name in map(_name, node.bases) if name in kinds), None)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def measure_code(root: pathlib.Path) -> dict[str, int]:
    """Lines by kind, statements, classes, modules and words of the product."""
    paths = python_files(root, *PRODUCT)
    texts = [path.read_text("utf-8") for path in paths]
    trees = [ast.parse(text) for text in texts]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    lines = sum(map(line_kinds, texts, trees), Counter[str]())
    classes = typed_classes(node for node in nodes if isinstance(node, ast.ClassDef))
    modules = [path for path in paths if path.name != "__init__.py"]
    folders = Counter(path.parent for path in modules)
    source = "\n".join(texts)
    return {
        "product lines": lines.total(),
        **{
            f"  {kind}": lines[kind] for kind in ("code", "docstring", "blank", "import", "comment")
        },
        "statements": sum(isinstance(node, ast.stmt) for node in nodes),
        "typed classes": classes.total(),
        **{f"  {kind}": classes[kind] for kind in ("dataclass", *TYPED_BASES)},
        "modules": len(modules),
        "flat modules in flows": folders[root / "flows"],
        "largest folder": max(folders.values(), default=0),
        "files evaluate, page, figures, ...": sum(path.name in PAGE_NAMES for path in modules),
        **{name: len(pattern.findall(source)) for name, pattern in PATTERNS.items()},
    }


def measure(root: pathlib.Path) -> dict[str, int]:
    """All figures of a checkout."""
    documents = [*root.glob("README.md"), *(root / "docs").rglob("*.md")]
    pipelines = [path for path in root.rglob("dvc.yaml") if ".venv" not in path.parts]
    alone = [path for path in root.glob("*/dvc.yaml") if len([*path.parent.glob("[!.]*")]) == 1]
    return {
        **measure_code(root),
        "that of, those of: docs": sum(
            len(GENITIVES.findall(path.read_text("utf-8"))) for path in documents
        ),
        "test lines": _lines(python_files(root, "tests")),
        "benchmark lines": _lines(python_files(root, "benchmarks")),
        "DVC lines": _lines(pipelines),
        "folders with only a dvc.yaml": len(alone),
    }


def _lines(paths: Iterable[pathlib.Path]) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def main() -> None:
    """Print the table, and write the figures as JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--against", type=pathlib.Path, help="the other checkout")
    add_output(parser)
    options = parser.parse_args()
    found = {"here": measure(pathlib.Path(__file__).parents[1])}
    if options.against:
        found["against"] = measure(options.against.resolve())
    table = Table("", *found, "ratio", box=None)
    for key, here in found["here"].items():
        other = found.get("against", {}).get(key)
        ratio = f"{here / other:.3f}" if other else ""
        table.add_row(key, *(f"{one[key]:,}" for one in found.values()), ratio)
    Console().print(table)
    write_results(options.output, found)


if __name__ == "__main__":
    main()
