"""Disjoint splits of any data set and size."""

import json
import pathlib

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.kind import Gold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.evaluate import EvaluationSet
from pipeline_lib.params.paths import CountdownParams, PrepareParams
from pipeline_lib.problems.splits import Splits, evaluation_problems, make_splits
from pipeline_lib.sampling.splits import checked_problems


def usable(_gold: Gold) -> None:
    return None


def gsm8k_row(number: int, *, question: str | None = None) -> dict:
    return {
        "question": question or f"How many are {number} and none?",
        "answer": f"#### {number}",
    }


def write_gsm8k(folder: pathlib.Path, *, train: range, test: range) -> pathlib.Path:
    for name, numbers in (("train", train), ("test", test)):
        lines = [json.dumps(gsm8k_row(number)) + "\n" for number in numbers]
        (folder / f"{name}.jsonl").write_text("".join(lines))
    return folder


def gsm8k_splits(folder: pathlib.Path, *, seed: int = 7, gold_problem=usable, **sizes) -> Splits:
    wanted = {"train_problems": 6, "test_problems": 4, "bootstrap_problems": 3} | sizes
    params = PrepareParams(dataset="gsm8k", source=str(folder), **wanted)
    return make_splits(params, seed=seed, gold_problem=gold_problem)


def ids(problems) -> set[str]:
    return {problem.id for problem in problems}


def test_official_splits_are_kept_apart(tmp_path: pathlib.Path):
    """Test problems come from the test file alone, train and bootstrap from the train file."""
    splits = gsm8k_splits(write_gsm8k(tmp_path, train=range(20), test=range(20, 30)))
    assert all(problem.id.startswith("gsm8k-test-") for problem in splits.test)
    rest = [*splits.train, *splits.bootstrap]
    assert all(problem.id.startswith("gsm8k-train-") for problem in rest)
    assert len(ids(rest)) == 6 + 3
    assert splits.report.drawn == {"test": 4, "train": 6, "bootstrap": 3}


def test_a_larger_split_holds_the_smaller_one(tmp_path: pathlib.Path):
    """Asking for more problems keeps those that were drawn before."""
    folder = write_gsm8k(tmp_path, train=range(20), test=range(20, 30))
    small, large = gsm8k_splits(folder), gsm8k_splits(folder, train_problems=9, test_problems=8)
    assert ids(small.train) < ids(large.train)
    assert ids(small.test) < ids(large.test)


def test_the_seed_chooses(tmp_path: pathlib.Path):
    """Equal seeds give equal splits, another seed others."""
    folder = write_gsm8k(tmp_path, train=range(20), test=range(20, 30))
    assert gsm8k_splits(folder).train == gsm8k_splits(folder).train
    assert ids(gsm8k_splits(folder).train) != ids(gsm8k_splits(folder, seed=8).train)


def test_too_large_sizes_are_clipped_and_reported(tmp_path: pathlib.Path):
    """20 train problems give 15 of train, then 5 of the wanted 10 of bootstrap."""
    splits = gsm8k_splits(
        write_gsm8k(tmp_path, train=range(20), test=range(20, 30)),
        train_problems=15,
        test_problems=99,
        bootstrap_problems=10,
    )
    assert splits.report.wanted == {"test": 99, "train": 15, "bootstrap": 10}
    assert splits.report.drawn == {"test": 10, "train": 15, "bootstrap": 5}


def test_a_set_without_train_problems_is_divided(tmp_path: pathlib.Path):
    """30 problems for a wanted 2000 + 400 give round(30 * 400 / 2400) = 5 test and 25 train."""
    lines = [json.dumps({"problem": f"Find {n}.", "answer": str(n)}) + "\n" for n in range(30)]
    (tmp_path / "test.jsonl").write_text("".join(lines))
    params = PrepareParams(
        dataset="aime", source=str(tmp_path), train_problems=2000, test_problems=400
    )
    splits = make_splits(params, seed=7, gold_problem=usable)
    assert splits.report.drawn == {"test": 5, "train": 25, "bootstrap": 0}
    assert not ids(splits.train) & ids(splits.test)


def test_repeats_within_a_split_go_once(tmp_path: pathlib.Path):
    """Questions that differ in case and spaces are repeats; the first is kept."""
    folder = write_gsm8k(tmp_path, train=range(5), test=range(20, 24))
    with (folder / "train.jsonl").open("a") as stream:
        repeat = gsm8k_row(0, question="how many  ARE 0 and none?")
        stream.write(json.dumps(repeat) + "\n")
    splits = gsm8k_splits(folder)
    assert splits.report.duplicates == 1
    assert ids(splits.train) == {f"gsm8k-train-{number}" for number in range(5)}


def test_overlap_of_train_and_test_is_refused(tmp_path: pathlib.Path):
    """A test question among the train questions is an error, even if it is not drawn."""
    folder = write_gsm8k(tmp_path, train=range(20), test=range(19, 30))
    with pytest.raises(BadInputError, match=r"1 train problems are test problems too .*train-19"):
        gsm8k_splits(folder, train_problems=1, test_problems=1)


def test_golds_that_cannot_be_used_are_counted_out(tmp_path: pathlib.Path):
    """A problem with an unusable gold is removed and reported with id and reason."""
    folder = write_gsm8k(tmp_path, train=range(5), test=range(20, 24))

    def refuses_three(gold: Gold) -> str | None:
        return "not a number" if gold == MathGold(answer="3") else None

    splits = gsm8k_splits(folder, gold_problem=refuses_three)
    gone = [tuple(row.values()) for row in splits.report.unusable_golds]
    assert gone == [("gsm8k-train-3", "not a number")]
    assert "gsm8k-train-3" not in ids(splits.train)


def test_nothing_left_is_an_error(tmp_path: pathlib.Path):
    """A data set without a usable gold is an error."""
    folder = write_gsm8k(tmp_path, train=range(5), test=range(20, 24))
    with pytest.raises(BadInputError, match="0 train and 0 test problems"):
        gsm8k_splits(folder, gold_problem=lambda _gold: "unreadable")


def test_file_set_needs_a_folder():
    """Unless it is known where it is published; the param that is missing is named."""
    with pytest.raises(BadInputError, match=r"prepare\.source is not set; arc needs"):
        make_splits(PrepareParams(dataset="arc"), seed=7, gold_problem=usable)


def test_countdown_is_generated_without_repeats():
    """The generated splits have the wanted sizes and share no problem."""
    params = PrepareParams(
        train_problems=40,
        test_problems=20,
        bootstrap_problems=30,
        countdown=CountdownParams(num_numbers=3),
    )
    splits = make_splits(params, seed=7, gold_problem=usable)
    assert len(ids(splits.train) | ids(splits.test) | ids(splits.bootstrap)) == 40 + 20 + 30
    assert splits.report.overlap.touched_test == 0
    assert all(problem.solution for problem in splits.bootstrap)


def test_long_solutions_are_left_out(tmp_path: pathlib.Path):
    """With max_steps=1 a problem with two marked calculations is in no split; other data has no marks."""
    for name, first in (("train", 0), ("test", 50)):
        rows = [
            {"question": f"How many are {number}?", "answer": f"<<1+1=2>>{marks}\n#### {number}"}
            for number in range(first, first + 12)
            for marks in ["<<2+2=4>>" if number % 2 else ""]
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
    splits = gsm8k_splits(tmp_path, max_steps=1, train_problems=5, bootstrap_problems=1)
    drawn = [*splits.train, *splits.bootstrap, *splits.test]
    assert len(drawn) == 6 + 4
    assert all(int(problem.gold.answer) % 2 == 0 for problem in drawn)
    with pytest.raises(ValueError, match="max_steps=1; only solutions of dataset=gsm8k"):
        PrepareParams(dataset="math", source=str(tmp_path), max_steps=1)


def test_an_evaluation_set_is_the_test_split_or_the_whole(tmp_path: pathlib.Path):
    """Without a train file all are taken; a larger set holds the smaller one; unusable golds are listed."""
    write_gsm8k(tmp_path, train=range(20), test=range(20, 30))

    def drawn(problems=None, gold_problem=usable):
        params = EvaluationSet(dataset="gsm8k", source=str(tmp_path), problems=problems)
        return evaluation_problems(params, seed=7, gold_problem=gold_problem)

    whole, none = drawn()
    assert (len(whole), none) == (10, [])
    assert {one.id.rpartition("-")[0] for one in whole} == {"gsm8k-test"}
    assert ids(drawn(4)[0]) < ids(drawn(7)[0]) < ids(whole)
    usable_ones, unusable = drawn(gold_problem=lambda gold: "odd" if gold.answer == "23" else None)
    assert (len(usable_ones), unusable) == (9, [{"problem_id": "gsm8k-test-3", "reason": "odd"}])
    (tmp_path / "test.jsonl").unlink()
    assert len(drawn()[0]) == 20
    with pytest.raises(BadInputError, match="no problem of gsm8k has a usable gold"):
        drawn(gold_problem=lambda _: "odd")


@pytest.mark.parametrize(
    ("dataset", "folder", "count"),
    [
        *(("aime24", "aime24", 30), ("aime25", "aime25", 30), ("aime26", "aime26", 30)),
        *(("hmmt25", "hmmt25", 30), ("humaneval", "humaneval", 164), ("math500", "math500", 500)),
        *(("mbpp", "mbpp", 500), ("gsm8k", "gsm8k", 1319), ("arc", "arc/arc-agi-2", 167)),
    ],
)
def test_published_benchmarks_are_whole(dataset, folder, count, reference_data: pathlib.Path):
    """Every problem is evaluated: no gold of them is unusable."""
    params = EvaluationSet(dataset=dataset, source=str(reference_data / folder))
    problems, note = checked_problems(params, seed=7)
    assert (len(problems), note) == (count, None)
