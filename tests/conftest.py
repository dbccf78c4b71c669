"""What all tests share: where the reference data sets are."""

import os
import pathlib

import pytest
from hypothesis import settings

# How long an example takes on a shared machine says nothing about whether it is right.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

REPOSITORY = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="session")
def reference_data() -> pathlib.Path:
    """The folder of public data sets; a test that needs it is skipped where there is none."""
    for candidate in (os.environ.get("REASONLOOP_DATA"), REPOSITORY.parent / "shared" / "data"):
        if candidate and (folder := pathlib.Path(candidate)).is_dir():
            return folder
    pytest.skip("no reference data: set REASONLOOP_DATA or place it at ../shared/data")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one folder go to one of the two workers, so that what they share is made once."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(str(item.path.parent)))
