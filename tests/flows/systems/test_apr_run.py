"""`reasonloop apr run`: stages, reuse, the compared models, and a run without reinforcement learning."""

import shutil

import pytest

from pipeline_lib.store import manifests
from pipeline_lib.store.files import read_json
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.study import read_study
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
    # Searches have no terse traces.
    stages = {stage.name for stage in SYSTEMS["apr"].stages} - {"apr-terse", "apr-terse-rl"}
    assert sorted(worked) == sorted(stages)
    assert worked[-1] == "apr-evaluate"
    study = read_study(Workspace(apr_run).apr.reports / "metrics.json")
    assert [(one.base, one.settings["T"]) for one in study.arms] == [
        (name, temperature)
        for name in ("parallel", "serial", "parallel rl", "serial rl")
        for temperature in (0, 1)
    ]
    assert {one.n for one in study.points if one.measure == "accuracy"} == {12}
    pairs = [(one.arm, one.reference) for one in study.differences if one.subset == "all"]
    assert len(pairs) == 2 * 6
    assert pairs[0] == ("parallel rl T=0", "serial rl T=0")
    assert ("parallel T=0", "serial T=0") in pairs


def test_conditions_are_chosen_on_the_valid_problems(apr_run):
    """Each condition of the training is compared there; the test problems have the best one of each kind."""
    folders = Workspace(apr_run).apr
    valid = read_study(folders.valid_reports / "metrics.json")
    chosen = read_json(folders.valid_reports / "conditions.json")
    conditions = {one.name: one.settings["condition"] for one in valid.arms}
    for kind, model in (("parallel", folders.parallel), ("serial", folders.serial)):
        ranked = {
            conditions[one.arm]: (one.value, -one.cost.critical)
            for one in valid.points
            if one.measure == "accuracy" and one.arm.startswith(kind)
        }
        trained = {one.strip() or "none" for one in read_record(model).conditions}
        assert {"none"} < {*ranked} == trained
        best = max(ranked, key=ranked.__getitem__)
        assert str(chosen[kind]) == ("0" if best == "none" else best.split()[-1])
        test = read_study(folders.reports / "metrics.json").arms
        assert {one.settings["condition"] for one in test if one.base.startswith(kind)} == {best}


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
    arms = read_study(reports / "metrics.json").arms
    assert {one.base for one in arms} == {"parallel", "serial"}
    # Rollouts of models that are not compared any more are gone.
    assert len(list(reports.glob("*.journal"))) == len(arms) == 4


@pytest.mark.slow
def test_a_model_of_other_params_is_replaced(reasonloop, apr_run, tmp_path):
    """Another learning rate of the RL in the same workspace: its models are trained anew, the others are kept."""
    copy = shutil.copytree(apr_run, tmp_path / "copy")
    before = digests(copy)
    done = reasonloop("apr", "run", "--workspace", copy, *APR, "--set", "apr.rl.lr=0.01")
    assert done.returncode == 0, done.stderr
    kept = [one == other for one, other in zip(before, digests(copy), strict=True)]
    assert kept == [True, True, True, False, False]
