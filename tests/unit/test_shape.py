"""The counts of `benchmarks.shape`, on a tree that can be counted by hand."""

import pytest

from benchmarks.shape import measure

MODULE = '''"""A module.

Two lines of text, and a blank one.
"""

from dataclasses import dataclass
from pydantic import (
    BaseModel,
)


# A comment.
@dataclass(frozen=True)
class Point:
    x: int
    """Of those of a kind."""


class Section(BaseModel):
    pass


class Own(Section):
    text = """
    that of a string"""


class Plain:
    def width(self, params): return wilson(level=params.confidence_level)
'''


@pytest.fixture
def tree(tmp_path):
    files = {
        "flows/__init__.py": '"""Flows."""\n',
        "flows/one.py": MODULE,
        "flows/cli/page.py": "uses_engine = uses_engine = 1\n",
        "pipeline_lib/figures.py": "",
        "tests/test_one.py": "a = 1\n\n",
        "benchmarks/one.py": "a = 1\n",
        "docs/one.md": "That of A,\nthose of B; those\nof C is on two lines\n",
        "adaptive/dvc.yaml": "stages:\n",
        "pacore/dvc.yaml": "stages:\n  a\n",
        "pacore/params.yaml": "a: 1\n",
        ".venv/lib/dvc.yaml": "no part of the tree\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tmp_path


def test_counts(tree):
    """Each line is of one kind; classes that derive from a record are records; text in strings is code."""
    found = measure(tree)
    lines = {
        kind: found[f"  {kind}"] for kind in ("code", "docstring", "blank", "import", "comment")
    }
    assert lines == {"code": 10 + 1, "docstring": 4 + 1 + 1, "blank": 9, "import": 4, "comment": 1}
    assert found["product lines"] == sum(lines.values()) == len(MODULE.splitlines()) + 2
    assert found["statements"] == 3 + 3 + 2 + 2 + 3 + 1 + 1
    assert (found["typed classes"], found["  dataclass"], found["  BaseModel"]) == (3, 1, 2)
    assert (found["modules"], found["flat modules in flows"], found["largest folder"]) == (3, 1, 1)
    assert found["files evaluate, page, figures, ..."] == 2
    assert (found["places of confidence_level"], found["lines with uses_engine"]) == (1, 1)
    assert (found["that of, those of: code"], found["that of, those of: docs"]) == (2, 2)
    assert (found["test lines"], found["benchmark lines"], found["DVC lines"]) == (2, 1, 3)
    assert found["folders with only a dvc.yaml"] == 1
