"""Fixtures of all tests: public and synthetic data sets; scheduling for pytest-xdist."""

import gc
import os
import pathlib
from collections import Counter
from itertools import chain, combinations

import pytest
from _pytest.mark.expression import Expression
from hypothesis import settings
from typing_extensions import override
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.synthetic_data import write_data

# On a shared machine the duration of an example is no property of the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

REPOSITORY = pathlib.Path(__file__).parents[1]
OTHER_MARKS = ("slow", "network")


def asks_for_gpu(expression: str) -> bool:
    """True if the marks of ``-m`` select a test for its mark `gpu`, whatever other marks it has."""
    others = chain.from_iterable(combinations(OTHER_MARKS, n) for n in range(len(OTHER_MARKS) + 1))
    selects = Expression.compile(expression).evaluate if expression else lambda _: True
    return any(
        selects({"gpu", *marks}.__contains__) > selects({*marks}.__contains__) for marks in others
    )


def pytest_configure(config: pytest.Config) -> None:
    """Give torch one thread; hide the GPUs unless their tests are asked for: all others compare numbers of a CPU.

    Before CUDA and OpenMP start, in this process, its workers and all that they start.
    """
    # Several workers share few cores; runs set their own number of threads.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if not asks_for_gpu(config.option.markexpr):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


@pytest.fixture(scope="session")
def reference_data() -> pathlib.Path:
    """The folder of public data sets; tests that need it are skipped without it."""
    for candidate in (os.environ.get("REASONLOOP_DATA"), REPOSITORY.parent / "shared" / "data"):
        if candidate and (folder := pathlib.Path(candidate)).is_dir():
            return folder
    pytest.skip("no reference data: set REASONLOOP_DATA or place it at ../shared/data")


@pytest.fixture(scope="session")
def synthetic_data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder of synthetic data in the layout of ``reference_data``, with few rows."""
    return write_data(tmp_path_factory.mktemp("synthetic-data"))


@pytest.fixture(scope="session", params=["synthetic_data", "reference_data"])
def data_folder(request: pytest.FixtureRequest) -> pathlib.Path:
    """The synthetic folder, and the public one if present."""
    return request.getfixturevalue(request.param)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Record the fault of a test in its report, from which docs/reliability.md is made.

    Large folders run first, whole commands before all others: no worker ends long after the others.
    """
    for item in items:
        for marker in item.iter_markers("fault"):
            item.user_properties += zip(("fault", "outcome"), marker.args, strict=True)
    sizes = Counter(item.path.parent for item in items)
    flows = REPOSITORY / "tests" / "flows"
    items.sort(
        key=lambda item: (
            not item.path.is_relative_to(flows),
            -sizes[item.path.parent],
            item.path.parent,
        )
    )


def pytest_collection_finish() -> None:
    """Leave what is imported and collected out of garbage collections: each trainer asks for full ones."""
    gc.collect()
    gc.freeze()


class FolderScheduling(LoadScopeScheduling):
    """All tests of a folder run on one worker, so that their shared servers and runs are made once."""

    @override
    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0].rpartition("/")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FolderScheduling:
    """Use FolderScheduling in pytest-xdist."""
    return FolderScheduling(config, log)
