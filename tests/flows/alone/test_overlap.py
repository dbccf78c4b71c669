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


@pytest.mark.parametrize(
    ("data", "held_out", "expected"),
    [
        ("synthetic_data", 1, {"held-out": (2, 1, 0), "gsm8k": (2, 2, 1), "aime": (2, 2, 0)}),
        (
            *("reference_data", 0),
            {"held-out": (7473, 2, 0), "gsm8k": (7473, 1319, 3), "aime": (7473, 30, 0)},
        ),
    ],
)
def test_every_evaluation_set_is_compared(request, tmp_path, capsys, data, held_out, expected):
    """Numbers of train and test questions, and of test questions that share 13 words with a train question: of
    invented sets, with a train question held out; and of GSM8K, with two test problems held out.
    """
    folder = request.getfixturevalue(data)
    gsm8k = load_splits("gsm8k", str(folder / "gsm8k"))
    train = gsm8k["train"][: len(gsm8k["train"]) - held_out]
    held = gsm8k["train"][len(train) :] or gsm8k["test"][:2]
    hold(tmp_path, train=train[: len(train) // 2], bootstrap=train[len(train) // 2 :], test=held)
    sets = [f"gsm8k={folder / 'gsm8k'}", f"aime={folder / 'aime25'}"]
    assert overlap(*sets, "--workspace", tmp_path) == 0
    report = json.loads((tmp_path / "reports" / "overlap.json").read_text("utf-8"))
    found = {
        start: (one["num_train"], one["num_test"], one["touched_test"])
        for start in expected
        for name, one in report.items()
        if name.startswith(start)
    }
    assert found == expected
    samples = [one["samples"] for name, one in report.items() if name.startswith("gsm8k")]
    assert [len(one["words"].split()) for one in samples[0]] == [13] * expected["gsm8k"][2]
    assert str(expected["gsm8k"][1]) in capsys.readouterr().out


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
