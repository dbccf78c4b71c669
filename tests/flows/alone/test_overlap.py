"""`reasonloop overlap`, on the problems of a workspace."""

import json

import pytest

from flows.cli.app import main
from pipeline_lib.problems.loading import load_splits
from pipeline_lib.store import shards
from pipeline_lib.store.workspace import Workspace
from tests.unit.study.judged_groups import judged_group


def hold(workspace, **splits):
    """Store the problems of a workspace's splits."""
    for name, problems in splits.items():
        rows = [problem.row() for problem in problems]
        shards.write_table(Workspace(workspace).problems(name), rows, kind="problems", key="k")


def overlap(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["overlap", *map(str, arguments)])
    return stopped.value.code


def test_every_synthetic_evaluation_set_is_compared(synthetic_data, tmp_path, capsys):
    """Two of three train questions are held out; one of the other set's two questions shares 13
    words with the third, none of a contest's does."""
    train = load_splits("gsm8k", str(synthetic_data / "gsm8k"))["train"]
    hold(tmp_path, train=train[:1], bootstrap=train[1:2], test=train[2:])
    sets = [f"gsm8k={synthetic_data / 'gsm8k'}", f"aime={synthetic_data / 'aime25'}"]
    assert overlap(*sets, "--workspace", tmp_path) == 0
    report = json.loads((tmp_path / "reports" / "overlap.json").read_text("utf-8"))
    found = {
        start: (one["num_train"], one["num_test"], one["touched_test"])
        for name, one in report.items()
        for start in ("held-out", "gsm8k", "aime")
        if name.startswith(start)
    }
    assert found == {"held-out": (2, 1, 0), "gsm8k": (2, 2, 1), "aime": (2, 2, 0)}
    capsys.readouterr()


def test_every_evaluation_set_is_compared(reference_data, tmp_path, capsys):
    """Train set: GSM8K's train file, with two test problems held out. 3 of the 1,319 test questions
    share a 13-gram with it, none of a contest's does."""
    gsm8k = load_splits("gsm8k", str(reference_data / "gsm8k"))
    train, test = gsm8k["train"], gsm8k["test"]
    hold(tmp_path, train=train[:4000], bootstrap=train[4000:], test=test[:2])
    sets = [f"gsm8k={reference_data / 'gsm8k'}", f"aime={reference_data / 'aime25'}"]
    assert overlap(*sets, "--workspace", tmp_path) == 0
    report = json.loads((tmp_path / "reports" / "overlap.json").read_text("utf-8"))
    own, gsm8k, aime = (
        next(found for name, found in report.items() if name.startswith(start))
        for start in ("held-out", "gsm8k", "aime")
    )
    assert (own["num_test"], own["touched_test"]) == (2, 0)
    assert (gsm8k["num_train"], gsm8k["num_test"], gsm8k["touched_test"]) == (7473, 1319, 3)
    assert (aime["num_test"], aime["touched_test"]) == (30, 0)
    assert len(gsm8k["samples"]) == 3
    assert all(len(sample["words"].split()) == 13 for sample in gsm8k["samples"])
    assert "1319" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("named", "words"),
    [("gsm8k", "give NAME=FOLDER"), ("poems=/tmp", "data set 'poems' is unknown")],
)
def test_a_set_that_cannot_be_read_is_one_line(tmp_path, capsys, named, words):
    """The line has name and remedy; exit code 2, no report."""
    one = judged_group("p", "c").problem
    hold(tmp_path, train=[one], bootstrap=[one], test=[one])
    assert overlap(named, "--workspace", tmp_path) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "reports").exists()
