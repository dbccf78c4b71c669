"""Prefixes that an evaluation asks peers about, and the controls that a gain counts against."""

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.classmate import ClassmateEvaluateParams, ClassmateParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import FinishReason, Group, JudgedPath, Path, Problem, Provenance
from pipeline_lib.systems.classmate.evaluation.policies import chosen_controls
from pipeline_lib.systems.classmate.evaluation.prefixes import asked_for, cut_paths, shuffled
from pipeline_lib.verify.dispatch import open_verifier
from pipeline_lib.verify.judged_paths import judge_paths
from tests.unit.systems.classmate.evaluation.cut_problems import cut_path

PROBLEM = Problem(
    id="p",
    question="24 from 3, 5 and 3",
    gold=CountdownGold(numbers=(3, 3, 5), target=24),
    source="x",
)
ORIGIN = Provenance(model="m", template="t", seed=1, temperature=1.0, top_p=1.0, max_new_tokens=8)


def test_the_first_paths_are_cut_at_every_share():
    """Two of three paths; of two steps a half keeps one and a quarter none; the last path is not asked."""
    texts = ["5+3=8\n8*3=24", "5*3=15\n15+3=18", "3+3=6\n6*5=30"]
    paths = [
        Path(
            problem_id="p", index=index, text=text, finish_reason=FinishReason.STOP,
            prompt_tokens=1, completion_tokens=1, logprob=None, provenance=ORIGIN,
        )
        for index, text in enumerate(texts)
    ]  # fmt: skip
    params = ClassmateParams(keep=(0.25, 0.5), evaluate=ClassmateEvaluateParams(paths=2))
    with open_verifier(VerifyParams()) as verifier:
        verdicts = judge_paths(paths, [PROBLEM], verifier)
        members = [JudgedPath(path=p, verdict=v) for p, v in zip(paths, verdicts, strict=True)]
        cut = cut_paths([Group(problem=PROBLEM, members=members)], params, verifier)
    assert [path.right for path in cut] == [True, False]
    assert [path.prefixes[0.5].text for path in cut] == ["5+3=8\n", "5*3=15\n"]
    assert {path.prefixes[0.25].text for path in cut} == {""}
    assert asked_for(cut) == [("p", ""), ("p", "5*3=15\n"), ("p", "5+3=8\n")]


def test_each_problem_gets_the_first_path_of_the_next_one():
    """The last gets that of the first."""
    paths = [
        cut_path("p", "a\n", right=True),
        cut_path("p", "b\n", right=True),
        cut_path("q", "c\n", right=True),
    ]
    moved = [(path.problem_id, path.prefixes[0.5].text) for path in shuffled(paths)]
    assert moved == [("p", "c\n"), ("q", "a\n")]


ARMS = ["base", "plain", "blind", "w0.1", "w0.5"]


def test_without_names_they_are_all_between_the_first_and_the_last():
    """Of two policies the first is the control."""
    assert chosen_controls(ARMS, ()) == ["plain", "blind", "w0.1"]
    assert chosen_controls(ARMS[:2], ()) == ["base"]


def test_an_arm_that_is_not_named_is_no_control():
    """A gain with the weight 0.5 need not exceed that with 0.1."""
    assert chosen_controls(ARMS, ("plain", "blind")) == ("plain", "blind")


@pytest.mark.parametrize(
    ("policies", "named", "message"),
    [
        (ARMS, ("plian",), "--control plian: is none of base, plain, blind, w0.1"),
        (ARMS, ("w0.5",), "--control w0.5: is none of"),
        (["base"], (), "base: one policy"),
    ],
)
def test_unusable_names(policies, named, message):
    """One line that says what there is."""
    with pytest.raises(BadInputError, match=message) as error:
        chosen_controls(policies, named)
    assert "\n" not in str(error.value)
