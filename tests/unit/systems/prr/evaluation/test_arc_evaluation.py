"""ARC end to end on a toy set: training, voting, and a valid submission; votes by hand."""

import json
import pathlib
import shutil
from dataclasses import replace

import numpy as np
import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.grids import grid_of
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.prr import (
    PrrEvaluateParams,
    PrrModelParams,
    PrrParams,
    PrrTrainParams,
)
from pipeline_lib.params.whole import Params
from pipeline_lib.study.pages.page import REPORT_NAME
from pipeline_lib.study.study import METRICS_NAME, read_study
from pipeline_lib.systems.prr.data.arc_builder import ArcOptions, build_arc
from pipeline_lib.systems.prr.data.dataset_files import (
    IDENTIFIERS_NAME,
    read_set,
    read_test_puzzles,
)
from pipeline_lib.systems.prr.data.grids import encode, grid_to_array
from pipeline_lib.systems.prr.evaluation.answers import BranchAnswers
from pipeline_lib.systems.prr.evaluation.arc_votes import ArcVotes
from pipeline_lib.systems.prr.evaluation.evaluate import PredictedBatch
from pipeline_lib.systems.prr.evaluation_folder import SUBMISSION_NAME, evaluate_on, show_on
from pipeline_lib.systems.prr.model.saved_model import check_compatible
from pipeline_lib.systems.prr.training.train import train_on
from tests.unit.systems.prr.sample_puzzles import small_subsets, write_combined, write_repository

PRR = PrrParams(
    model=PrrModelParams(
        width=32,
        heads=2,
        hidden_multiple=8,
        mixer="mlp",
        prefix_tokens=1,
        num_branches=2,
        steps=4,
        grad_steps=4,
    ),
    train=PrrTrainParams(steps=40, batch_size=12, lr=1e-2, checkpoint_every=40),
    evaluate=PrrEvaluateParams(batch_size=5, pictures=1),
)
PARAMS = Params(seed=1, prr=PRR, evaluate=EvaluateParams(resamples=100))
OPTIONS = ArcOptions(test_set="evaluation", num_aug=5, seed=7, max_side=5)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A folder with data and a briefly trained model."""
    root = tmp_path_factory.mktemp("toy")
    build_arc(
        small_subsets(write_repository(root / "source")),
        OPTIONS,
        root / "data",
    )
    train_on(root / "data", root / "model", PRR, seed=1)
    return root


def check_submission(found, data):
    """The written submission has attempts for every test input, and all of them are grids."""
    inputs = {name: len(puzzle.test) for name, puzzle in read_test_puzzles(data).items()}
    written = json.loads((found / SUBMISSION_NAME).read_text("utf-8"))
    assert {name: len(entries) for name, entries in written.items()} == inputs
    for entry in (entry for entries in written.values() for entry in entries):
        assert [*entry] == ["attempt_1", "attempt_2"]
        assert all(map(grid_of, entry.values()))


@pytest.mark.parametrize("chosen", ["all", "scorer"])
def test_votes_and_submission(chosen, toy, tmp_path):
    """Two attempts per test input, pass@k monotone in k, a score, and the setting named."""
    found = tmp_path / "found"
    evaluation = PRR.evaluate.model_copy(update={"voters": chosen})
    params = PARAMS.model_copy(update={"prr": PRR.model_copy(update={"evaluate": evaluation})})
    evaluate_on(toy / "data", [toy / "model"], found, params)
    check_submission(found, toy / "data")
    study = read_study(found / METRICS_NAME)
    assert study.point("scorer", "accuracy").n == 2 * 6
    assert study.claims[-1].startswith("Transductive")
    arc = study.compute["arc"]
    assert arc["submission"]["ARC Prize score"] == arc[chosen]["pass@2"]
    for voters in ("all", "scorer", "confidence"):
        shares = [arc[voters][f"pass@{k}"] for k in (1, 2, 5, 10, 100, 1000)]
        assert shares == sorted(shares)


def test_secret_outputs_get_a_submission(toy, tmp_path):
    """With secret outputs there is a complete submission, but no metrics and no score."""
    source = write_combined(tmp_path / "source", secret=("evaluation",))
    build_arc(small_subsets(source), OPTIONS, tmp_path / "data")
    found = tmp_path / "found"
    evaluate_on(tmp_path / "data", [toy / "model"], found, PARAMS)
    check_submission(found, tmp_path / "data")
    study = read_study(found / METRICS_NAME)
    assert (study.points, study.differences) == ((), ())
    assert [(one.reason, one.n) for one in study.left_out] == [("the answer is secret", 2 * 6)]
    assert study.compute["models"] == {"model": {"core passes": 8}}
    assert not {"all", "scorer", "submission"} & study.compute["arc"].keys()
    assert "secret" in study.claims[-1]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"max_side": 6}, "trained for seq_len=25, but .* has seq_len=36"),
        ({"num_aug": 9}, "trained for num_puzzle_ids=19, but .* has num_puzzle_ids=31"),
        ({"seed": 8}, "trained with another identifiers.json"),
    ],
)
def test_data_of_another_build_are_refused(toy, tmp_path, changes, complaint):
    """Another canvas, more versions, and other versions of equal number are refused."""
    subsets = small_subsets(toy / "source")
    build_arc(subsets, replace(OPTIONS, **changes), tmp_path / "data")
    with pytest.raises(BadInputError, match=complaint):
        evaluate_on(tmp_path / "data", [toy / "model"], tmp_path / "found", PARAMS)
    with pytest.raises(BadInputError, match=complaint):
        show_on(tmp_path / "data", toy / "model", tmp_path / "drawn", PARAMS, count=1)
    assert not (tmp_path / "found").exists()


def test_pictures_of_arc_name_the_setting(toy, tmp_path):
    """The page of `show` names the transductive setting and contains the pictures."""
    show_on(toy / "data", toy / "model", tmp_path / "drawn", PARAMS, count=2)
    page = (tmp_path / "drawn" / REPORT_NAME).read_text("utf-8")
    assert "Transductive" in page
    assert page.count("example-") == page.count("as grids") == 2


def test_formatting_of_identifiers_is_ignored(toy, tmp_path):
    """identifiers.json on one line is accepted: only the names count."""
    shutil.copytree(toy / "data", tmp_path / "data")
    path = tmp_path / "data" / IDENTIFIERS_NAME
    path.write_text(json.dumps(json.loads(path.read_text("utf-8"))), "utf-8")
    assert read_set(tmp_path / "data", "test").identifiers_digest is not None
    check_compatible(toy / "model", read_set(tmp_path / "data", "test"), folder=tmp_path / "data")


def test_several_models_vote_only_with_the_option(toy, tmp_path):
    """Two models need the option; with it, a model twice gives the same submission."""
    data, models, two = toy / "data", [toy / "model"] * 2, tmp_path / "two"
    with pytest.raises(BadInputError, match="--ensemble-checkpoints"):
        evaluate_on(data, models, two, PARAMS)
    assert not two.exists()
    evaluate_on(data, models, two, PARAMS, ensemble=True)
    evaluate_on(data, models[:1], tmp_path / "one", PARAMS)
    submissions = [
        json.loads((folder / SUBMISSION_NAME).read_text("utf-8"))
        for folder in (tmp_path / "one", two)
    ]
    assert submissions[0] == submissions[1]


SIDE = 5
BLACK = 2
ONE, FOUR, NINE = [[0]], [[0, 0], [0, 0]], [[0, 0, 0], [0, 0, 0], [0, 0, 0]]
"""Black squares: every augmentation leaves them as they are."""


def canvas(grid: list[list[int]]) -> np.ndarray:
    """A black grid as the tokens of a model."""
    tokens = np.zeros((SIDE, SIDE), dtype=np.uint8)
    tokens[: len(grid), : len(grid)] = BLACK
    return tokens.ravel()


def votes_of(root: pathlib.Path, *, num_aug: int, answers_NKL: list | np.ndarray) -> ArcVotes:
    """Votes on a small data folder.

    Of four branches the third is the most confident, the fourth has the highest score, and the first the highest score
    but one.
    """
    subsets = small_subsets(write_repository(root / "source"))
    options = ArcOptions(test_set="evaluation", num_aug=num_aug, seed=7, max_side=SIDE)
    build_arc(subsets, options, root / "data")
    data = read_set(root / "data", "test")
    tokens_BKL = np.broadcast_to(answers_NKL, (len(data.inputs_NL), 4, SIDE * SIDE))
    scores_BK, sure_BK = (
        np.tile(np.array(row, dtype=np.float32), (len(tokens_BKL), 1))
        for row in ([0.5, -3, -2, 2], [-0.5, -0.6, -0.1, -0.9])
    )
    votes = ArcVotes(root / "data", data)
    votes.add(
        PredictedBatch(
            start=0,
            stop=len(tokens_BKL),
            answers=BranchAnswers(
                tokens_BKL=tokens_BKL,
                kept_BKL=tokens_BKL,
                scores_BK=scores_BK,
                # As decoded: an answer without a grid has no confidence.
                confidences_BK=np.where(tokens_BKL.any(-1), sure_BK, -np.inf),
            ),
            judged=None,
            core_passes=4,
        )
    )
    return votes


@pytest.mark.parametrize(
    ("fourth", "voters", "first"),
    [
        (NINE, "all", FOUR),
        (NINE, "scorer", NINE),
        (NINE, "confidence", ONE),
        ([], "scorer", FOUR),
        ([], "confidence", ONE),
    ],
)
def test_voters_decide_the_submission(fourth, voters, first, tmp_path):
    """Branches 1 and 2 give four cells, the most confident one cell, the one with the highest score nine.

    If the latter has no grid, the scorer's pick is the next: branch 1, of score .5.
    """
    answers_KL = np.stack([canvas(FOUR), canvas(FOUR), canvas(ONE), canvas(fourth)])
    votes = votes_of(tmp_path, num_aug=5, answers_NKL=answers_KL)
    submitted = votes.submit(tmp_path / "submission.json", voters=voters)
    assert submitted["unanswered test inputs"] == 0
    submission = json.loads((tmp_path / "submission.json").read_text("utf-8"))
    attempts = [attempt["attempt_1"] for outputs in submission.values() for attempt in outputs]
    assert attempts == [first] * 2


def test_the_submission_is_scored_as_by_arc_prize(tmp_path):
    """One of the two test inputs is solved by the second attempt: half of the inputs, no puzzle."""
    solved_L = encode(grid_to_array(((3, 3),)), side=SIDE)
    wrong_L = canvas(FOUR)
    answers_NKL = [[wrong_L] * 4, [wrong_L, wrong_L, solved_L, solved_L]]
    votes = votes_of(tmp_path, num_aug=0, answers_NKL=answers_NKL)
    submitted = votes.submit(tmp_path / "submission.json", voters="all")
    assert submitted["submission"] == {
        "ARC Prize score": 0.5,
        "test inputs solved": 0.5,
        "puzzles solved": 0.0,
    }
    assert votes.metrics()["all"]["pass@2"] == 0.5
