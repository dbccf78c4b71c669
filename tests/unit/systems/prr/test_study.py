"""The study of hand-made answers: points, the control, attempts, the page."""

import numpy as np
import pytest

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.store import shards
from pipeline_lib.study.statistics.intervals import wilson_interval
from pipeline_lib.study.study import write_study
from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet
from pipeline_lib.systems.prr.evaluation.answers import CoveredRows, JudgedRows
from pipeline_lib.systems.prr.evaluation.evaluate import EvaluatedSet
from pipeline_lib.systems.prr.study import (
    Findings,
    attempts,
    figure_tables,
    make_prr_study,
    puzzles,
)

EVALUATE = EvaluateParams(resamples=100)
PROVENANCE = {"version": "1", "commit": None, "params_digest": "abc"}


def evaluated(right_BK, picked, *, covered=None, passes=8.0) -> EvaluatedSet:
    """Examples 0, 1, ... with the picked branch of each by rule."""
    right = np.array(right_BK, dtype=np.bool_)
    rows = len(right)
    return EvaluatedSet(
        judged=JudgedRows(
            places_B=np.arange(rows),
            unlabelled=1,
            right_BK=right,
            scores_BK=np.ones(right.shape, dtype=np.float32),
            confidences_BK=np.full(right.shape, -0.5, dtype=np.float32),
            picked={name: np.array(at) for name, at in picked.items()},
            best_B=np.zeros(rows, dtype=np.int64),
            distinct=2 * rows,
            disagreement=0.5 * rows,
        ),
        covered=covered,
        core_passes=passes,
    )


PICKED = {"scorer": [0, 0, 1, 0], "majority": [1, 1, 0, 0], "confidence": [0, 1, 0, 0]}
RIGHT = [[True, False], [True, False], [True, False], [False, False]]
COVERED = CoveredRows(
    answers_B=np.array([1, 2, 2, 2]),
    found_B=np.array([1.0, 0.5, 1.0, 0.0]),
    right_BK=np.array([[True, False], [True, False], [True, True], [False, False]]),
    picked={name: np.array(at) for name, at in PICKED.items()},
)
MODEL = evaluated(RIGHT, PICKED, covered=COVERED, passes=16.0)
ONE = evaluated([[True], [False], [False], [False]], {name: [0] * 4 for name in PICKED}, passes=8.0)


def study_of(found: Findings):
    return make_prr_study(found, evaluate=EVALUATE, seed=7, provenance=PROVENANCE)


def test_points_by_hand():
    """The scorer is right on two of four, by the label; where branches differ on two of three."""
    study, _ = study_of(Findings(models={"model": MODEL}))
    found = {
        (one.arm, one.measure, one.subset): (one.value, one.n)
        for one in study.points
        if one.arm in {"scorer", "oracle", "branches"}
    }
    assert found == {
        ("scorer", "accuracy", "all"): (0.5, 4),
        ("oracle", "accuracy", "all"): (0.75, 4),
        ("branches", "accuracy", "all"): (0.375, 4),
        ("scorer", "picks best", "all"): (pytest.approx(2 / 3), 3),
        ("scorer", "any solution", "all"): (0.75, 4),
        ("oracle", "any solution", "all"): (0.75, 4),
        ("branches", "any solution", "all"): (0.5, 4),
        ("branches", "solutions found", "all"): (0.625, 4),
        ("branches", "all solutions found", "all"): (0.5, 4),
        ("scorer", "any solution", "right answers: 1"): (1.0, 1),
        ("oracle", "any solution", "right answers: 1"): (1.0, 1),
        ("branches", "any solution", "right answers: 1"): (0.5, 1),
        ("branches", "solutions found", "right answers: 1"): (1.0, 1),
        ("branches", "all solutions found", "right answers: 1"): (1.0, 1),
        ("scorer", "any solution", "right answers: 2"): (pytest.approx(2 / 3), 3),
        ("oracle", "any solution", "right answers: 2"): (pytest.approx(2 / 3), 3),
        ("branches", "any solution", "right answers: 2"): (0.5, 3),
        ("branches", "solutions found", "right answers: 2"): (0.5, 3),
        ("branches", "all solutions found", "right answers: 2"): (pytest.approx(1 / 3), 3),
    }
    scorer = study.point("scorer", "accuracy")
    assert scorer.interval == wilson_interval(2, 4, EvaluateParams())
    assert [one.name for one in study.arms if one.upper_bound] == ["oracle"]
    assert [(one.reason, one.n) for one in study.left_out] == [("the answer is secret", 1)]


def test_the_headline_is_the_scorer_over_one_branch():
    """Right on two of four against one of four; no other arm has an answer of the control."""
    study, _ = study_of(Findings(models={"model": MODEL}, control={"control": ONE}))
    assert study.headline is not None
    assert (study.headline.arm, study.headline.reference) == ("scorer", "one branch")
    assert (study.headline.value, study.headline.n) == (0.25, 4)
    assert [one.measure for one in study.points if one.arm == "one branch"] == ["accuracy"]
    assert "16 core passes with all branches, and 8 with the one branch" in study.claims[-1]


def test_rollouts_of_the_control_are_selected_by_its_scorer():
    """Of two rollouts the scorer prefers the right one twice."""
    two = evaluated(RIGHT, PICKED)
    study, _ = study_of(Findings(models={"model": MODEL}, control={"control": two}))
    assert study.point("one branch", "accuracy").value == 0.5


def test_several_models_have_arms_of_their_own():
    study, series = study_of(Findings(models={"a": MODEL, "b": MODEL}))
    assert study.point("scorer model=b", "accuracy").value == 0.5
    found = [*attempts(Findings(models={"a": MODEL, "b": MODEL}), series)]
    assert {one.arm for one in found} == {"branches model=a", "branches model=b"}


def test_every_branch_is_an_attempt(tmp_path):
    """Four examples of two branches and of one; the tables are joined by the name of the example."""
    found = Findings(models={"model": MODEL}, control={"control": ONE})
    study, series = study_of(found)
    judged = [*attempts(found, series)]
    assert [(one.arm, one.problem_id, one.sample, one.right) for one in judged[:3]] == [
        ("branches", "example-000", 0, True),
        ("branches", "example-000", 1, False),
        ("branches", "example-001", 0, True),
    ]
    assert len(judged) == 4 * 2 + 4
    assert judged[-1].extra == {"logit": 1.0, "confidence": -0.5}
    data = PuzzleSet.of(
        inputs_NL=np.array([[2, 3], [2, 3]], dtype=np.uint8),
        labels_NL=np.array([[3, 2], [2, 2]], dtype=np.uint8),
        puzzle_identifiers=[0, 0],
        puzzle_indices=range(3),
        group_indices=range(3),
        vocab_size=4,
    )
    write_study(tmp_path, study, series, puzzles(data))
    first, second = shards.read_table(tmp_path / "problems")
    assert (first["id"], first["kind"]) == ("example-000", "puzzle")
    assert first["question"] == second["question"]
    assert first["gold"] != second["gold"]


def test_figures_of_branches_and_votes():
    """Nested figures of the votes become rows; numbers of a name are in their order."""
    arc = {"scored puzzles": 1, "all": {"pass@2": 0.5, "pass@10": 1.0, "pass@1": 0.0}}
    study, _ = study_of(Findings(models={"model": MODEL}, arc=arc))
    branches, votes = figure_tables(study)
    assert ("disagreement", "0.5") in branches.rows
    assert [name for name, _ in votes.rows[:3]] == ["all: pass@1", "all: pass@2", "all: pass@10"]
