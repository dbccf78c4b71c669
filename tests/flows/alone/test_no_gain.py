"""A loop without a signal: random verdicts on the paths of a converged base."""

import pathlib
import random

import pytest

from pipeline_lib.store import manifests, shards
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.study import read_study

pytestmark = pytest.mark.slow

SETTINGS = {
    "prepare.countdown.high": 30,
    "prepare.countdown.target_low": 1,
    "prepare.train_problems": 150,
    "prepare.test_problems": 100,
    "prepare.bootstrap_problems": 400,
    "bootstrap.steps": 700,
    "sample.shard_size": 150,
    "train.method": "sft",
    "train.lr": 0.001,
    "train.steps": 60,
    "train.batch_size": 32,
    "train.checkpoint_every": 30,
}
OPTIONS = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]


def judge_at_random(workspace: Workspace) -> float:
    """Replace each verdict of round 1 by a fair coin, under the keys of the true ones.

    Returns the share of heads.
    """
    folder = workspace.round_folders(1).verdicts
    sealed = manifests.read_manifest(folder)
    coin = random.Random(5)
    heads = []
    for index in range(len(sealed.files)):
        key = shards.shard_manifest(folder, index).key
        rows = shards.read_shard(folder, index)
        for row in rows:
            right = coin.random() < 0.5
            heads.append(right)
            row |= {"strict": right, "lenient": right, "status": "correct" if right else "wrong"}
        shards.write_shard(folder, index, rows, kind=sealed.kind, key=key)
    shards.seal_table(folder, len(sealed.files), kind=sealed.kind, key=sealed.key)
    return sum(heads) / len(heads)


@pytest.fixture(scope="module")
def workspace(reasonloop, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    root = tmp_path_factory.mktemp("random-rewards")
    shared = ("--workspace", root, "--profile", "smoke", "--runner", "thread", *OPTIONS)
    done = reasonloop("run", *shared)
    assert done.returncode == 0, done.stderr
    assert judge_at_random(Workspace(root)) == pytest.approx(0.5, abs=0.1)
    # Results that depend on the verdicts are made again; control and base do not.
    done = reasonloop("run", *shared)
    assert done.returncode == 0, done.stderr
    (root / "stdout.txt").write_text(done.stdout, encoding="utf-8")
    return root


def test_random_rewards_give_no_gain_over_the_control(workspace):
    """Title, console, metrics and report agree that there is no gain."""
    study = read_study(workspace / "reports" / "metrics.json")
    over = [one for one in study.differences if one.reference == "control"]
    assert {"pass@1", "pass@4"} <= {one.measure for one in over}
    assert not [one for one in over if one.finding == "gain"]
    title = study.claims[0]
    assert title.startswith("No ")
    assert "gain" in title
    page = (workspace / "reports" / "report.html").read_text("utf-8")
    assert f"<title>{title}</title>" in page
    assert "Policy gains" not in page
    assert title in (workspace / "stdout.txt").read_text("utf-8")


def test_the_base_had_converged(workspace):
    """The control has no gain over the base."""
    study = read_study(workspace / "reports" / "metrics.json")
    base, control = (study.point(name, "pass@1") for name in ("base", "control"))
    assert base.value > 0.3
    assert control.low < base.value
