"""Checks of a run before it takes its workspace."""

import pytest

from flows.run.admission import check_run, check_writable, taken
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.whole import Params
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.systems.stage import Run
from pipeline_lib.systems.table import SYSTEMS


def params(**sections):
    return Params.model_validate({"execution": {"runner": "thread"}, **sections})


@pytest.mark.parametrize(
    "sections",
    [
        {"serve": {"engine": "url", "url": "http://127.0.0.1:9/v1"}},
        {"prepare": {"dataset": "gsm8k", "source": "missing"}},
        {"bootstrap": {"model": "./missing"}},
    ],
)
def test_a_system_checks_what_it_reads(tmp_path, sections):
    """Params may name a server for other commands, or a data set or model of the loop that is not here."""
    run = Run(root=tmp_path, params=params(**sections))
    with pytest.raises(BadInputError):
        check_run(LOOP, run)
    for name in ("apr", "prr"):
        check_run(SYSTEMS[name], run)


@pytest.mark.parametrize(
    "sections",
    [{"prepare": {"dataset": "gsm8k", "source": "missing"}}, {"bootstrap": {"model": "./missing"}}],
)
def test_classmate_reads_nothing_of_the_loop(tmp_path, sections):
    """Neither its data set nor its model, which were checked before."""
    check_run(SYSTEMS["classmate"], Run(root=tmp_path, params=params(**sections)))


def test_a_workspace_in_use_is_refused(tmp_path):
    """Before a server is started, and by the flow that would take it."""
    run = Run(root=tmp_path, params=params())
    with taken(run):
        for attempt in (lambda: check_run(LOOP, run), lambda: taken(run).__enter__()):
            with pytest.raises(ReasonloopError, match="in use"):
                attempt()
    Workspace(tmp_path).lease().__enter__()


def test_trackers_are_checked_for_every_run(tmp_path):
    """All systems train."""
    run = Run(root=tmp_path, params=params(execution={"report_to": ["bells"]}))
    for system in SYSTEMS.values():
        with pytest.raises(BadInputError, match="bells is unknown"):
            check_run(system, run)


def test_a_workspace_that_cannot_be_made_is_refused(tmp_path):
    """A file where the folder should be: one line with the path."""
    (tmp_path / "file").touch()
    with pytest.raises(ReasonloopError, match="file: cannot be written"):
        check_writable(tmp_path / "file")
