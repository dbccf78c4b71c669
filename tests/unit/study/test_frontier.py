"""Accuracy against cost over several evaluations, on hand-made ones."""

import csv
import json

import numpy as np
import pytest

from flows.cli.app import main
from pipeline_lib.errors import BadInputError
from pipeline_lib.seeding import child_seed
from pipeline_lib.store.files import read_json
from pipeline_lib.study.frontier import make_frontier, read_evaluations
from pipeline_lib.study.pages.cost_figures import AXES
from pipeline_lib.study.statistics.intervals import score_interval
from tests.unit.study.toy_evaluations import EVALUATE, ToyArm, right, write_evaluation

DRAWN, TOTAL, CRITICAL = AXES


def frontier_of(*paths):
    return make_frontier(read_evaluations(paths), EVALUATE, seed=7)


def test_problems_are_joined_by_their_content(tmp_path):
    """Ids differ; of ten and ten problems the six that both have count, with values and costs on these alone."""
    write_evaluation(tmp_path, "apr", ToyArm(base="parallel", values=right(6), drawn=20))
    write_evaluation(tmp_path, "loop", ToyArm(base="policy", values=right(3, start=4)))
    found = frontier_of(tmp_path)
    assert (found.systems, found.n) == (("apr", "loop"), 6)
    points = {one.label: one for one in found.points}
    assert points["apr: parallel"].score.value == pytest.approx(2 / 6)
    loop = points["loop: policy"]
    assert loop.cost.drawn == 10
    values_P = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    seed = child_seed(7, "frontier", "loop: policy")
    assert loop.score == score_interval(np.array(values_P), EVALUATE, seed=seed)


def test_the_pareto_set_by_hand(tmp_path):
    """The costs differ in their order: total has prompts, critical the longest chain alone."""
    write_evaluation(
        tmp_path,
        "apr",
        ToyArm(base="parallel", values=right(8), drawn=40, critical=10),
        ToyArm(base="serial", values=right(8), drawn=30, critical=30),
        ToyArm(base="oracle", values=right(10), drawn=5, critical=5, upper_bound=True),
    )
    write_evaluation(
        tmp_path,
        "loop",
        ToyArm(base="policy", values=right(6), drawn=10, prompt=50, critical=10, measure="pass@1"),
        ToyArm(base="base", values=right(6), drawn=20, critical=20),
    )
    found = {one.label: one.pareto for one in frontier_of(tmp_path).points}
    assert found == {
        "apr: oracle": (),
        "apr: parallel": (CRITICAL,),
        "apr: serial": (DRAWN, TOTAL),
        "loop: policy": (DRAWN,),
        "loop: base": (TOTAL,),
    }


def test_equal_arms_are_both_in_the_pareto_set(tmp_path):
    arms = [ToyArm(base=name, values=right(5)) for name in ("plain", "peers")]
    write_evaluation(tmp_path, "classmate", *arms)
    assert [one.pareto for one in frontier_of(tmp_path).points] == [tuple(AXES)] * 2


def test_arms_that_lack_or_saw_a_problem_are_left_out_and_counted(tmp_path):
    write_evaluation(
        tmp_path,
        "apr",
        ToyArm(base="parallel", values=right(6)),
        ToyArm(base="serial", values=right(6, of=8)),
        ToyArm(base="untrained", values=right(6), seen=["q1", "q2", "q7", "q9"]),
        ToyArm(base="claims", values=right(6), measure="claims"),
        ToyArm(base="noise", values=right(6), drawn=0),
    )
    write_evaluation(tmp_path, "loop", ToyArm(base="policy", values=right(3, of=9)))
    found = frontier_of(tmp_path)
    assert [one.label for one in found.points] == ["apr: parallel", "loop: policy"]
    assert [(one.reason, one.n) for one in found.study.left_out] == [
        ("apr: arms without an accuracy that has costs", 2),
        ("apr: serial lacks common problems", 1),
        ("apr: untrained was trained on common problems", 3),
    ]


def test_one_system_of_two_workspaces(tmp_path):
    """The folder's name tells them apart, its path where the names are equal; a report's folder can be named."""
    for parent, name in (("a", "old"), ("a", "new"), ("b", "new")):
        arm = ToyArm(base="policy", values=right(3))
        write_evaluation(tmp_path / parent / name, "loop", arm)
    write_evaluation(tmp_path / "a" / "old", "apr", ToyArm(base="serial", values=right(3)))
    old, new, other = (tmp_path / name for name in ("a/old", "a/new", "b/new"))
    assert list(read_evaluations([old, new])) == ["apr", "old loop", "new loop"]
    assert list(read_evaluations([new / "reports" / "loop", other])) == [
        f"{new} loop",
        f"{other} loop",
    ]
    assert list(read_evaluations([old, old / "reports" / "apr"])) == ["apr", "loop"]
    (old / "reports" / "apr").rename(old / "reports" / "apr-valid")
    assert list(read_evaluations([old])) == ["loop"]


def test_what_cannot_be_compared_is_refused_by_name(tmp_path):
    apr = write_evaluation(tmp_path, "apr", ToyArm(base="parallel", values=right(6)))
    prr = write_evaluation(tmp_path, "prr", ToyArm(base="scorer", values=right(6, start=50)))
    loop = write_evaluation(tmp_path, "loop", ToyArm(base="policy", values=right(6), seen=["q1"]))
    with pytest.raises(BadInputError) as nothing_shared:
        frontier_of(tmp_path)
    for part in (f"apr ({apr})", f"prr ({prr})", "no problem in common"):
        assert part in str(nothing_shared.value)
    with pytest.raises(BadInputError, match=r"no arm remains on 10 common problems: loop: policy"):
        frontier_of(loop)
    with pytest.raises(BadInputError, match="has no reports/SYSTEM/"):
        frontier_of(tmp_path / "reports")
    (apr / "metrics.json").write_text('{"models": []}')
    with pytest.raises(BadInputError, match="not of schema 2"):
        frontier_of(apr)


def test_the_command(tmp_path, capsys, monkeypatch):
    """Table on the console, three files; three figures on a page in which the set is ringed."""
    monkeypatch.chdir(tmp_path)
    vote = ToyArm(base="vote", values=right(9), drawn=80)
    write_evaluation(tmp_path, "loop", ToyArm(base="policy", values=right(3)), vote)
    write_evaluation(tmp_path, "apr", ToyArm(base="serial", values=right(2), drawn=200))
    with pytest.raises(SystemExit) as stopped:
        main(["frontier", "--set", "evaluate.resamples=200"])
    assert not stopped.value.code
    shown = capsys.readouterr().out
    assert "Accuracy against cost on the same 10 problems: apr, loop" in shown
    folder = tmp_path / "reports" / "frontier"
    content = read_json(folder / "frontier.json")
    assert [one["label"] for one in content["points"]] == [
        "loop: vote",
        "loop: policy",
        "apr: serial",
    ]
    assert content["points"][1]["pareto"] == [DRAWN, TOTAL]
    rows = list(csv.DictReader((folder / "frontier.csv").read_text("utf-8").splitlines()))
    assert json.loads(rows[2]["drawn"]) == 200
    page = (folder / "report.html").read_text()
    assert page.count("<img") == 3
    assert "A model that searches in one thread" in page


def test_the_command_refuses_in_one_line(tmp_path, capsys):
    write_evaluation(tmp_path, "loop", ToyArm(base="policy", values=right(3)))
    write_evaluation(tmp_path, "prr", ToyArm(base="scorer", values=right(3, start=50)))
    with pytest.raises(SystemExit) as stopped:
        main(["frontier", str(tmp_path), "--output", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out").exists()
