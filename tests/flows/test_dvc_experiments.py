"""Experiments of DVC: what a changed param runs, the table, plots, and a queue in temporary folders."""

import json
import pathlib
import re
import shlex

import psutil
import pytest
import yaml

from benchmarks.lib.repository import REPOSITORY
from tests.flows.dvc_repositories import Checkout, stages_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MOST_COLUMNS = 12


@pytest.fixture(scope="module")
def clone(reproduced, tmp_path_factory) -> Checkout:
    """A clone with the results of a finished run."""
    return reproduced.clone_with_cache(tmp_path_factory.mktemp("experiments") / "clone")


def lock_of(checkout: Checkout, output: str) -> str:
    """Digest of an output in dvc.lock."""
    stages = yaml.safe_load((checkout.folder / "dvc.lock").read_text("utf-8"))["stages"]
    found = [
        out["md5"] for stage in stages.values() for out in stage["outs"] if out["path"] == output
    ]
    return found[0]


def table_command() -> list[str]:
    """Arguments of `dvc exp show` in `make experiments`."""
    recipe = (REPOSITORY / "Makefile").read_text("utf-8")
    line = re.search(r"^EXPERIMENTS := (exp show .*)$", recipe, re.MULTILINE)
    return shlex.split(line[1])


def columns(table: str) -> list[str]:
    """Names of the columns of a Markdown table."""
    return [name.strip() for name in table.splitlines()[0].strip("| ").split("|")]


def test_a_param_of_training_alone_runs_train_evaluate_and_report(clone):
    """The loss of GRPO is read by no other stage."""
    ran = stages_in(clone.dvc("exp", "run", "--name", "other-loss", "-S", "train.variant=grpo"))
    assert ran == {"train", "evaluate", "report"}


def test_a_learning_rate_trains_no_control_again(clone):
    """The control of SFT has the rate of `train`, so it is started; that of GRPO finds its work done."""
    before = lock_of(clone, "models/control")
    ran = stages_in(clone.dvc("exp", "run", "--name", "other-rate", "-S", "train.lr=0.0001"))
    assert ran == {"train", "control", "evaluate", "report"}
    assert lock_of(clone, "models/control") == before


def test_the_table_of_experiments_is_narrow(clone):
    """At most 12 columns: figures, and the params that differ; no dependency."""
    names = columns(clone.dvc(*table_command(), "--md"))
    assert len(names) <= MOST_COLUMNS
    assert {
        "arm",
        "reference",
        "gain",
        "gain_low",
        "gain_high",
        "p",
        "train.lr",
        "train.variant",
    } <= set(names)
    assert not any("/" in name for name in names)


def test_plots_of_two_experiments(clone):
    """pass@k by policy through the template, and the training loss, with rows of both experiments."""
    shown = json.loads(clone.dvc("plots", "diff", "other-loss", "other-rate", "--json"))
    assert not shown.get("errors")
    for title, fields in {
        "pass@k": {"policy", "low", "high"},
        "training loss": {"step", "loss"},
    }.items():
        content = json.dumps(shown["data"][title])
        assert all(f"{field}" in content for field in fields)
        assert set(shown["data"][title][0]["revisions"]) == {"other-loss", "other-rate"}


def test_a_queue_of_two_in_temporary_folders(clone, tmp_path):
    """Both run apart from the workspace, which stays as it was; no process and no folder is left."""
    clone.git("stash", "--quiet")
    clone.dvc("checkout", "--quiet")
    before = clone.git("rev-parse", "HEAD"), clone.git("status", "--short")
    params = (clone.folder / "params.yaml").read_bytes()
    for name, rate in {"slow": "0.00002", "fast": "0.0002"}.items():
        clone.dvc("exp", "run", "--queue", "--name", name, "-S", f"train.lr={rate}")
    clone.dvc("exp", "run", "--run-all", "--jobs", "1")
    assert (clone.git("rev-parse", "HEAD"), clone.git("status", "--short")) == before
    assert (clone.folder / "params.yaml").read_bytes() == params
    rows = {row.get("name"): row for row in experiments(clone)}
    for name, rate in {"slow": 0.00002, "fast": 0.0002}.items():
        data = rows[name]["data"]
        assert data["params"]["params.yaml"]["data"]["train"]["lr"] == rate
        assert 0 <= data["metrics"]["reports/summary.json"]["data"]["arm"] <= 1
        target = tmp_path / f"{name}.json"
        clone.dvc("get", ".", "reports/metrics.json", "--rev", name, "--out", str(target))
        # The paths and the control are those of another workspace: seconds that are not 0.
        spent = json.loads(target.read_text("utf-8"))["compute"]
        assert {spent[side]["cpu_seconds"] for side in ("loop", "control")} == {None}
    assert not running_below(clone.folder)
    assert not list((clone.folder / ".dvc" / "tmp" / "exps").glob("tmp*"))


def experiments(checkout: Checkout) -> list[dict]:
    """All finished experiments as DVC lists them."""
    baselines = json.loads(checkout.dvc("exp", "show", "--json"))
    return [
        rev for base in baselines for found in base["experiments"] or () for rev in found["revs"]
    ]


def running_below(folder: pathlib.Path) -> list[str]:
    """Processes whose working directory is in ``folder``."""
    return [
        " ".join(process.info["cmdline"] or ())
        for process in psutil.process_iter(["cwd", "cmdline"])
        if (process.info["cwd"] or "").startswith(str(folder))
    ]
