"""The 13-gram overlap report."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.kinds.arc import ArcGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.problems.loading import load_splits
from pipeline_lib.problems.overlap import NGRAM_WORDS, normalized_question, overlap_report
from pipeline_lib.records import Problem

WORDS = [f"w{number}" for number in range(40)]


def problem_of(name: str, question: str) -> Problem:
    return Problem(id=name, question=question, gold=MathGold(answer="1"), source="test")


def test_thirteen_shared_words_touch_twelve_do_not():
    """The run is 13 words long: one word less in common is no overlap."""
    test = [problem_of("t", " ".join(WORDS[:20]))]
    train = [
        problem_of("twelve", " ".join([*WORDS[:12], *WORDS[30:]])),
        problem_of("twelve last", " ".join([*WORDS[30:], *WORDS[8:20]])),
        problem_of("thirteen", " ".join([*WORDS[:13], *WORDS[30:]])),
    ]
    report = overlap_report(train, test)
    assert (report.touched_train, report.touched_test) == (1, 1)
    assert [sample["train_id"] for sample in report.samples] == ["thirteen"]
    assert report.samples[0]["words"].split() == WORDS[:13]


def test_grids_overlap_as_a_whole_only():
    """Rows of one colour, which are in most puzzles, are no overlap; the same question is."""
    gold = ArcGold(output=((0,),))
    black = " ".join("0" * 30)
    test = [Problem(id="t/0", question=f"{black}\n1", gold=gold, source="test")]
    train = [
        Problem(id=f"{last}/0", question=f"{black}\n{last}", gold=gold, source="test")
        for last in (1, 2)
    ]
    report = overlap_report(train, test)
    (sample,) = report.samples
    assert (sample["test_id"], sample["train_id"]) == ("t/0", "1/0")
    assert report.touched_train == 1


def test_case_punctuation_and_forms_do_not_hide_a_repeat():
    """Fullwidth digits, capitals and commas are normalized before comparison."""
    asked = "If Ann has 12 pens, and Bob has 30 pens, how many pens are there?"
    fullwidth = str.maketrans("0123", "".join(chr(0xFF10 + digit) for digit in range(4)))
    hidden = "IF ANN HAS 12 PENS  AND BOB HAS 30 PENS; HOW MANY PENS ARE THERE".translate(fullwidth)
    assert overlap_report([problem_of("a", hidden)], [problem_of("b", asked)]).touched_test == 1


def test_samples_are_few_and_counts_are_not():
    """25 repeats are counted as 25 of 25 and shown as 20."""
    problems = [problem_of(f"p{n}", f"{n} " + " ".join(WORDS)) for n in range(25)]
    report = overlap_report(problems, problems)
    assert (report.touched_test, len(report.samples)) == (25, 20)


slices = st.builds(
    lambda start, length: WORDS[start : start + length], st.integers(0, 20), st.integers(1, 20)
)


@given(questions=st.lists(slices, min_size=2, max_size=5))
def test_agrees_with_the_definition(questions: list[list[str]]):
    """Counts equal the counts of comparing all runs of all questions pairwise."""
    problems = [problem_of(str(n), " ".join(words)) for n, words in enumerate(questions)]
    half = len(problems) // 2
    train, test = problems[:half], problems[half:]

    def runs(problem: Problem) -> set[tuple[str, ...]]:
        words = problem.question.split()
        if len(words) < NGRAM_WORDS:
            return {tuple(words)}
        return {tuple(words[at : at + NGRAM_WORDS]) for at in range(len(words) - NGRAM_WORDS + 1)}

    report = overlap_report(train, test)
    assert report.touched_test == sum(any(runs(a) & runs(b) for b in train) for a in test)
    assert report.touched_train == sum(any(runs(a) & runs(b) for b in test) for a in train)


@given(text=st.text(max_size=60))
def test_normalizing_twice_changes_nothing(text: str):
    """White space and ASCII case are ignored, and normalization is idempotent."""
    once = normalized_question(text)
    assert once == " ".join(once.split())
    assert normalized_question(f"  {text}\n") == once


@pytest.mark.parametrize(
    ("data", "sizes", "touched"),
    [("synthetic_data", (3, 2), (1, 1)), ("reference_data", (7473, 1319), (4, 3))],
)
def test_gsm8k_is_nearly_clean(request, data, sizes, touched):
    """Of 1,319 published test problems 3 share a 13-gram with the 7,473 train problems; of our own 1 of 2."""
    splits = load_splits("gsm8k", str(request.getfixturevalue(data) / "gsm8k"))
    report = overlap_report(splits["train"], splits["test"])
    assert (report.num_train, report.num_test) == sizes
    assert (report.touched_train, report.touched_test) == touched
