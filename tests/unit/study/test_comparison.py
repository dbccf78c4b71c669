"""Base against trained, on groups small enough to count by hand."""

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.study.comparison import compare
from pipeline_lib.study.statistics.paired import DifferenceFinding
from pipeline_lib.study.summary import evaluate_groups
from tests.unit.study.judged_groups import judged_group

PARAMS = EvaluateParams(num_paths=4, ks=(1, 2), resamples=500)


def summarise(letters):
    groups = [judged_group(problem_id, text) for problem_id, text in letters.items()]
    return evaluate_groups(groups, PARAMS, seed=7)


def compared(base, trained):
    return compare(summarise(base), summarise(trained), PARAMS, seed=7)


def test_differences_are_within_problems():
    """pass@1 from (1/4, 1/4) to (3/4, 2/4): mean of +0.5 and +0.25 is +0.375."""
    found = compared({"a": "cwww", "b": "wcww"}, {"a": "cccw", "b": "ccww"})
    assert found.strict[1].interval.value == pytest.approx(0.375)
    assert (found.strict[1].base, found.strict[1].trained) == (0.25, 0.625)


def test_problems_are_paired_by_id_and_the_rest_is_counted():
    """Only b is in both; a and c are unpaired, and b alone makes the difference."""
    found = compared({"a": "cccc", "b": "wwww"}, {"c": "wwww", "b": "cccc"})
    assert (found.num_problems, found.num_unpaired) == (1, 2)
    assert found.strict[1].interval.value == 1


def test_a_gain_of_format_alone_is_told_apart():
    """20 problems go from 2 right in the wrong format to 2 right: strict +0.5, lenient 0."""
    names = [f"p{index}" for index in range(20)]
    found = compared(dict.fromkeys(names, "ffww"), dict.fromkeys(names, "ccww"))
    assert found.strict[1].finding is DifferenceFinding.GAIN
    assert found.lenient[1].finding is DifferenceFinding.NO_SIGNIFICANT_GAIN
    assert found.lenient[1].interval.value == 0
    assert found.format_share.interval.value == 0.5


def test_sharpening_is_seen_as_lost_coverage():
    """All problems at 1 of 4; then 2 are sure and 18 hopeless: pass@2 falls from 0.5 to 0.1."""
    names = [f"p{index}" for index in range(20)]
    base = dict.fromkeys(names, "cwww")
    sharp = {name: "cccc" if index < 2 else "wwww" for index, name in enumerate(names)}
    found = compared(base, sharp)
    assert found.strict[2].interval.value == pytest.approx(-0.4)
    assert found.strict[2].finding is DifferenceFinding.SIGNIFICANTLY_LOWER


def test_flips_and_mcnemar_look_at_the_same_problems():
    """a: wrong to right, b: right to wrong, c: unchanged; first paths say the same."""
    found = compared(
        {"a": "wwwc", "b": "cccw", "c": "cccc"}, {"a": "cccw", "b": "wwwc", "c": "cccc"}
    )
    assert [flip.problem_id for flip in found.gained] == ["a"]
    assert [flip.problem_id for flip in found.lost] == ["b"]
    assert (found.single.only_base, found.single.only_trained) == (1, 1)


def test_nothing_in_common_is_an_error():
    """Two splits cannot be compared, whatever their scores."""
    with pytest.raises(BadInputError, match="share no problem"):
        compared({"a": "cccc"}, {"b": "cccc"})
