"""Documents: links and pointers name existing files, and lines have at most 120 columns."""

import pathlib
import re
import tokenize

import pytest

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib import defaults

WIDTH = 120
DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
SETTINGS = [
    REPOSITORY / "params.yaml",
    *sorted((defaults.FOLDER / defaults.PROFILES).glob("*.yaml")),
]
SOURCES = sorted(
    path
    for folder in ("flows", "tasks", "pipeline_lib", "benchmarks", "tests")
    for path in (REPOSITORY / folder).rglob("*.py")
)

POINTER = re.compile(
    r"(?<![\w./-])(?:docs|profiles|benchmarks|flows|tasks|pipeline_lib|tests)/[\w./-]+"
    r"\.(?:md|py|ya?ml|toml|json|html|j2|png|txt)\b"
)
PLACEHOLDER = re.compile(r"[A-Z]+\.py")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
INLINE_LINK = re.compile(r"\]\(([^)\s]+)\)")
DEFINITION = re.compile(r"^\[([^\]]+)\]: (\S+)$", re.MULTILINE)
REFERENCE = re.compile(r"\[([a-z][a-z0-9-]*)\](?![(\[:])")


def name(path: pathlib.Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def anchors(document: pathlib.Path) -> set[str]:
    """Anchors of the headings, as GitHub derives them."""
    text = re.sub(r"^```.*?^```", "", document.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_broken(target: str, document: pathlib.Path) -> bool:
    """A relative link to a missing file, or to a missing heading of a document."""
    if re.match(r"[a-z]+:", target):
        return False
    file, _, anchor = target.partition("#")
    path = document.parent / file if file else document
    return not path.exists() or bool(anchor and anchor not in anchors(path))


def prose(source: pathlib.Path) -> str:
    """Comments and triple-quoted strings of a Python file; other strings may name a test's files."""
    with tokenize.open(source) as file:
        tokens = tokenize.generate_tokens(file.readline)
        return "\n".join(
            token.string
            for token in tokens
            if token.type == tokenize.COMMENT or '"""' in token.string[:5]
        )


def missing_files(text: str) -> list[str]:
    pointers = {pointer for pointer in POINTER.findall(text) if not PLACEHOLDER.search(pointer)}
    return sorted(pointer for pointer in pointers if not (REPOSITORY / pointer).exists())


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_exist(document):
    """Every relative link names an existing file and heading; every reference has a definition."""
    text = CODE.sub("", document.read_text("utf-8"))
    definitions = dict(DEFINITION.findall(text))
    targets = [*INLINE_LINK.findall(text), *definitions.values()]
    assert [target for target in targets if is_broken(target, document)] == []
    assert set(REFERENCE.findall(text)) == set(definitions)


@pytest.mark.parametrize("file", [*DOCUMENTS, *SETTINGS], ids=name)
def test_pointers_of_documents_and_settings(file):
    """Every repository file named in a document or settings file exists."""
    assert missing_files(file.read_text("utf-8")) == []


def test_pointers_of_sources():
    """Every repository file named in a docstring or comment exists."""
    pointing = [path for path in SOURCES if POINTER.search(path.read_text("utf-8"))]
    missing = {name(path): missing_files(prose(path)) for path in pointing}
    assert {path: files for path, files in missing.items() if files} == {}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_line_lengths(document):
    """No line is longer than 120 columns."""
    lines = enumerate(document.read_text("utf-8").splitlines(), start=1)
    assert [number for number, line in lines if len(line) > WIDTH] == []


def test_a_broken_link_is_found(tmp_path):
    """A missing file and a missing heading are broken; a URL and an existing heading are not."""
    document = tmp_path / "page.md"
    document.write_text("# A `b`, c\n\n```\n# no heading\n```\n", "utf-8")
    targets = ["gone.md", "page.md#no-heading", "#a-b-c", "page.md", "https://example.org/x"]
    assert [is_broken(target, document) for target in targets] == [True, True, False, False, False]


def test_a_missing_pointer_is_found():
    """A missing file is reported; existing files and placeholders are not."""
    gone = "pipeline_lib/" + "no_such_module.py"
    assert missing_files(f"`{gone}`, README.md, `tests/conftest.py`, `flows/NAME.py`") == [gone]
