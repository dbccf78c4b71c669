"""What all tests share: the data sets that they read, public ones and our own."""

import os
import pathlib

import pytest
from hypothesis import settings
from typing_extensions import override
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.made_data import write_data

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


@pytest.fixture(scope="session")
def made_data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder in the layout of ``reference_data``, with few rows, all of them our own."""
    return write_data(tmp_path_factory.mktemp("made-data"))


@pytest.fixture(scope="session", params=["made_data", "reference_data"])
def data_folder(request: pytest.FixtureRequest) -> pathlib.Path:
    """Our own folder, and the public one where there is one."""
    return request.getfixturevalue(request.param)


class FolderScheduling(LoadScopeScheduling):
    """Tests of one folder go to one worker, so that the servers and runs they share are made once."""

    @override
    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0].rpartition("/")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FolderScheduling:
    """The workers of pytest-xdist share the tests like this."""
    return FolderScheduling(config, log)
