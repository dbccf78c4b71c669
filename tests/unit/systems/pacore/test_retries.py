"""Paths that try until they are right, against a synthesis: by hand on two problems."""

import re
from dataclasses import replace

import pytest

from pipeline_lib.study.study import accuracies
from pipeline_lib.systems.pacore.retries import Retries
from pipeline_lib.systems.pacore.study import EvaluatedModel, pacore_study
from tests.unit.systems.pacore.test_study import LOW, SETTINGS, problem


def retried(name, lengths):
    """A problem with a path for each number of tokens; one of 99 tokens is wrong, all others are right."""
    found = problem(name, [tokens != 99 for tokens in lengths], synthesis=False, references=())
    candidates = [
        replace(one, tokens=tokens) for one, tokens in zip(found.candidates, lengths, strict=True)
    ]
    return replace(found, candidates=tuple(candidates), outcomes={})


# A synthesis draws 40 tokens with a critical path of 20 (test_study.problem).
MODEL = EvaluatedModel(
    name="m", problems=[problem(one, [False] * 4, synthesis=True, references=()) for one in "ab"]
)
RETRIES = Retries(problems=[retried("a", [10, 20, 30, 40]), retried("b", [30, 40, 50, 99])])


@pytest.fixture(scope="module")
def study():
    return pacore_study([MODEL], about="m", **SETTINGS, retries=RETRIES)[0]


def rivals(study):
    return {one.reference: one for one in study.differences if "retry" in one.reference}


def test_at_free_length_all_right_paths_count(study):
    """Of 8 paths 7 are right."""
    assert rivals(study)["serial retry"].of_reference == 7 / 8


def test_a_cut_path_counts_if_it_ends_in_time(study):
    """Within 20 tokens two of four paths of a end, none of b."""
    [cut] = [one for name, one in rivals(study).items() if name.startswith("serial retry ")]
    assert cut.of_reference == 1 / 4


def test_several_at_once_are_as_many_as_draw_no_more(study):
    """Two of a end after 10 (3 of 6 pairs) or 20 tokens, so they draw 30, and of b 40: 35 a problem. Three draw more:
    3 times 12.5 (3 of 4 begin with 10, one with 20) and 60."""
    [parallel] = [one for name, one in rivals(study).items() if re.match("parallel.* tokens", name)]
    [arm] = [one for one in study.arms if one.name == parallel.reference]
    assert (arm.settings["paths"], arm.settings["tokens"]) == (2, 20)
    # Of the six pairs of a, one has none of the two short paths.
    assert parallel.of_reference == pytest.approx(5 / 6 / 2)


def test_the_first_of_several_without_a_limit_counts_whenever_it_ends(study):
    """Two at once would draw 33 tokens of a, 10 or 20 or 30 each, and 73 of b, above 40 a problem; so it is one."""
    names = rivals(study).keys() & {
        one.name for one in study.arms if one.settings.get("paths") == 1
    }
    [first] = [one for one in names if one.startswith("parallel retry") and "tokens" not in one]
    assert rivals(study)[first].of_reference == 7 / 8


def test_rivals_have_an_accuracy_with_its_cost(study):
    """So that `reasonloop frontier` shows them beside other systems."""
    found = {name: one.cost for name, one in accuracies(study).items() if "retry" in name}
    assert len(found) == 4
    assert found["serial retry"].drawn == (25 + (30 + 40 + 50 + 99) / 4) / 2


def test_the_claim_names_all_three_axes(study):
    """Accuracy, critical path, drawn tokens."""
    [claim] = [one for one in study.claims if "serial retry" in one]
    assert "critical path of 20 tokens" in claim
    assert "2 parallel retries" in claim
    assert "1 of no more drawn tokens have 87.5" in claim
    assert "instead of 40" in claim


def test_without_retries_nothing_is_compared_with_them():
    """The study of the default."""
    plain = pacore_study([MODEL], about="m", **SETTINGS)[0]
    assert not rivals(plain)
    assert LOW in {one.arm for one in plain.differences}
