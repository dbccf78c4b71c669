"""Checks of a run before it takes its workspace."""

import pytest

from flows.run.admission import admitted
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.whole import Params
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.systems.loop import preflight
from pipeline_lib.systems.stage import Run


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
def test_a_run_without_an_engine_needs_no_policy_of_the_loop(tmp_path, sections):
    """Its params may name a server for other commands, or a data set or model that is not here."""
    run = Run(root=tmp_path, params=params(**sections))
    with pytest.raises(BadInputError), admitted(run):
        pass
    with admitted(run, uses_engine=False), pytest.raises(ReasonloopError, match="in use"):
        Workspace(tmp_path).lease().__enter__()


def test_space_is_that_of_the_loop(tmp_path, monkeypatch):
    """Refused for the loop alone, whose size is estimated."""
    monkeypatch.setattr(preflight, "needed_bytes", lambda _root, _params: 2**60)
    run = Run(root=tmp_path, params=params())
    with pytest.raises(ReasonloopError, match="MiB free"), admitted(run):
        pass
    with admitted(run, uses_engine=False):
        pass


def test_trackers_are_checked_for_every_run(tmp_path):
    """Both kinds train."""
    run = Run(root=tmp_path, params=params(execution={"report_to": ["bells"]}))
    for uses_engine in (True, False):
        with (
            pytest.raises(BadInputError, match="bells is unknown"),
            admitted(run, uses_engine=uses_engine),
        ):
            pass
