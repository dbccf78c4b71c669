"""`reasonloop apr run`: stages, reuse, the compared models, and a run without reinforcement learning."""

import shutil

import pytest

from pipeline_lib.store import manifests
from pipeline_lib.store.files import read_json
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.systems.apr.model_record import read_record
from pipeline_lib.systems.table import SYSTEMS
from pipeline_lib.telemetry import events_size, read_events
from tests.flows.smoke_runs import APR


def digests(root):
    folders = Workspace(root).apr
    sealed = (
        *(folders.data, folders.parallel, folders.serial),
        *(folders.parallel_rl, folders.serial_rl),
    )
    return [manifests.read_manifest(folder).digest for folder in sealed]


def test_both_models_are_compared_before_and_after_reinforcement_learning(apr_run):
    """On the 12 test problems, at two temperatures, in each of the 6 pairs, after all stages in their order."""
    worked = [event["stage"] for event in read_events(apr_run) if event["event"] == "stage"]
    assert sorted(worked) == sorted(stage.name for stage in SYSTEMS["apr"].stages)
    assert worked[-1] == "apr-evaluate"
    metrics = read_json(Workspace(apr_run).apr.reports / "metrics.json")
    assert [(m["name"], m["kind"], m["temperature"]) for m in metrics["models"]] == [
        (name, name.removesuffix("-rl"), temperature)
        for name in ("parallel", "serial", "parallel-rl", "serial-rl")
        for temperature in (0, 1)
    ]
    assert {model["problems"] for model in metrics["models"]} == {12}
    assert len(metrics["paired"]) == 2 * 6
    pairs = {(one["model"], one["base"]) for one in metrics["paired"]}
    assert {("parallel", "serial"), ("parallel-rl", "serial-rl")} <= pairs


def test_conditions_are_chosen_on_the_valid_problems(apr_run):
    """Each condition of the training is compared there; the test problems have the best one of each kind."""
    folders = Workspace(apr_run).apr
    valid = read_json(folders.valid_reports / "metrics.json")
    assert valid["split"] == "valid"
    chosen = read_json(folders.valid_reports / "conditions.json")
    for kind, model in (("parallel", folders.parallel), ("serial", folders.serial)):
        ranked = {
            one["condition"]: (one["accuracy"]["value"], -one["critical_tokens"])
            for one in valid["models"]
            if one["kind"] == kind
        }
        assert {""} < {*ranked} == {one.strip() for one in read_record(model).conditions}
        best = max(ranked, key=ranked.__getitem__)
        assert str(chosen[kind]) == (best.split()[-1] if best else "0")
        test = read_json(folders.reports / "metrics.json")["models"]
        assert {one["condition"] for one in test if one["kind"] == kind} == {best}


def test_finished_stages_are_reused(reasonloop, apr_run):
    """The same command again trains and draws nothing."""
    before, offset = digests(apr_run), events_size(apr_run)
    done = reasonloop("apr", "run", "--workspace", apr_run, *APR)
    assert done.returncode == 0, done.stderr
    work = [e["stage"] for e in read_events(apr_run, offset=offset) if e["event"] == "work"]
    assert set(work) <= {"apr-conditions", "apr-evaluate"}
    assert digests(apr_run) == before


@pytest.mark.slow
def test_without_steps_there_is_no_reinforcement_learning(reasonloop, apr_run, tmp_path):
    """A copy of the workspace with 0 steps: the trained models are reused, and two are compared, at two temperatures."""
    copy = shutil.copytree(apr_run, tmp_path / "copy")
    before, offset = digests(copy), events_size(copy)
    steps = ("--set", "apr.rl.steps=0")
    done = reasonloop("apr", "run", "--workspace", copy, *APR, *steps)
    assert done.returncode == 0, done.stderr
    work = [e["stage"] for e in read_events(copy, offset=offset) if e["event"] == "work"]
    assert set(work) == {"apr-conditions", "apr-evaluate"}
    assert digests(copy) == before
    reports = Workspace(copy).apr.reports
    metrics = read_json(reports / "metrics.json")
    assert {model["name"] for model in metrics["models"]} == {"parallel", "serial"}
    # Rollouts of models that are not compared any more are gone.
    assert len(list(reports.glob("*.journal"))) == len(metrics["models"]) == 4


@pytest.mark.slow
def test_a_model_of_other_params_is_replaced(reasonloop, apr_run, tmp_path):
    """Another learning rate of the RL in the same workspace: its models are trained anew, the others are kept."""
    copy = shutil.copytree(apr_run, tmp_path / "copy")
    before = digests(copy)
    done = reasonloop("apr", "run", "--workspace", copy, *APR, "--set", "apr.rl.lr=0.01")
    assert done.returncode == 0, done.stderr
    kept = [one == other for one, other in zip(before, digests(copy), strict=True)]
    assert kept == [True, True, True, False, False]
