"""Rules of the mutation benchmark: what is mutated, in which order, and which tests are asked."""

import fnmatch
import itertools
import pathlib
from collections import Counter

import pytest

from benchmarks.lib.mutant_targets import (
    LEFT_OUT,
    LIBRARY,
    TestFiles,
    package_of,
    sample_order,
)
from benchmarks.lib.repository import REPOSITORY


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """A small checkout: two packages of 30 and 10 lines, and tests that import them."""
    sources = {
        f"{LIBRARY}/big/one.py": "x = 1\n" * 30,
        f"{LIBRARY}/small/two.py": f"import {LIBRARY}.big.one\n" + "y = 2\n" * 9,
        f"{LIBRARY}/errors.py": "z = 3\n" * 100,
        "tests/unit/small/conftest.py": f"from {LIBRARY}.small import two\n",
        "tests/unit/small/test_other.py": "",
        "tests/unit/big/test_all.py": f"from {LIBRARY}.big import one\nimport {LIBRARY}.errors\n",
        "tests/unit/big/test_one.py": f"import {LIBRARY}.errors\nimport {LIBRARY}.big.one\n",
        "tests/unit/big/test_alone.py": "",
    }
    for name, source in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source, encoding="utf-8")
    return tmp_path


def test_what_is_left_out_exists():
    """Each pattern of a module that is not mutated matches a module."""
    library = REPOSITORY / LIBRARY
    modules = [path.relative_to(library).as_posix() for path in library.rglob("*.py")]
    for pattern in itertools.chain(*LEFT_OUT.values()):
        assert fnmatch.filter(modules, pattern), pattern


def test_each_prefix_is_spread_by_lines(tree: pathlib.Path):
    """Of n mutants each package has its share by lines, to the nearest mutant but one."""
    order = sample_order(tree, seed=1)
    assert len(order) == 39
    for n in range(1, 14):
        counts = Counter(package_of(mutant.path) for mutant in order[:n])
        assert abs(counts["big"] - n * 3 / 4) <= 1
    assert set(order) == set(sample_order(tree, seed=2))
    assert order != sample_order(tree, seed=2)


def test_tests_by_distance(tree: pathlib.Path):
    """Importers come first, then what reaches the module through others, then the rest of the folder."""
    files = TestFiles(tree=tree)
    named, also = "tests/unit/big/test_one.py", "tests/unit/big/test_all.py"
    assert files.near(f"{LIBRARY}/big/one.py") == [named, also]
    assert files.far(f"{LIBRARY}/big/one.py") == ["tests/unit/big/test_alone.py"]
    assert files.near(f"{LIBRARY}/small/two.py") == []
    assert files.far(f"{LIBRARY}/small/two.py") == ["tests/unit/small/test_other.py"]
