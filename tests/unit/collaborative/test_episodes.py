"""Episodes: the filter by hand, references by seed, completions that are no reference."""

from collections import Counter

import pytest

from pipeline_lib.collaborative.episodes import JudgedQuestion, PromptForm, make_episodes
from pipeline_lib.collaborative.message_cache import CachedQuestion
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.pacore import EpisodeParams
from pipeline_lib.records import Problem
from tests.unit.collaborative.scripted_chat import TURNS, PlainTurns, last_turn

FORM = PromptForm(
    render=PlainTurns().render,
    fits=lambda _prompt: True,
    message_of=lambda text: text.removeprefix("thought ") or None,
)


def judged(name, right, gold="42"):
    problem = Problem(id=name, question="6 times 7?", gold=MathGold(answer=gold), source="test")
    responses = [f"{name} response {number}" for number in range(len(right))]
    cached = CachedQuestion(problem=problem, conversation=TURNS, responses=responses)
    return JudgedQuestion(cached=cached, right=right)


def made(questions, *, supervised=True, form=FORM, seed=7, **params):
    return make_episodes(questions, EpisodeParams(**params), form, seed=seed, supervised=supervised)


def test_the_filter_by_hand():
    """Of 8 responses 0, 2, 3 and 8 are right: means 0, .25, .375 and 1; only .25 is above 0 and below .375."""
    questions = [judged(str(n), [True] * n + [False] * (8 - n)) for n in (0, 2, 3, 8)]
    episodes = made([*questions, judged("x", [None] * 8)])
    assert [row["problem_id"] for row in episodes.rows] == ["2"]
    assert episodes.counts == {
        "questions": 5,
        "unscored": 1,
        "never_right": 1,
        "too_often_right": 2,
        "kept": 1,
        "too_few_messages": 0,
        "references_dropped": 0,
        "episodes": 1,
    }


def test_a_failed_verifier_is_neither_right_nor_wrong():
    """One right of two scored and two unscored: a mean of one half."""
    assert judged("p", [True, False, None, None]).mean_right == 0.5


def test_the_number_of_references_varies():
    """300 episodes with 2 to 4 references: each number in a third of them, within 4 standard errors."""
    question = judged("p", [True] + [False] * 7)
    episodes = made([question], draws=300, supervised=False)
    counts = Counter(len(row["references"]) for row in episodes.rows)
    assert set(counts) == {2, 3, 4}
    assert all(abs(count - 100) < 4 * (300 * 2 / 9) ** 0.5 for count in counts.values())


def test_episodes_depend_on_seed_and_id_alone():
    """Another question beside it changes nothing; another seed does."""
    one, other = judged("p", [True] + [False] * 7), judged("q", [True] + [False] * 7)
    alone = made([one], draws=5).rows
    beside = [row for row in made([other, one], draws=5).rows if row["problem_id"] == "p"]
    assert sorted(alone, key=str) == sorted(beside, key=str)
    assert sorted(alone, key=str) != sorted(made([one], draws=5, seed=8).rows, key=str)


def test_a_completion_is_right_and_not_a_reference():
    """The two right responses are completions; each episode's own one is in no prompt of it."""
    question = judged("p", [False, True, False, False, True, False, False, False])
    rows = made([question], draws=40).rows
    assert {row["completion"] for row in rows} == {"p response 1", "p response 4"}
    for row in rows:
        assert row["completion"] not in last_turn(row["prompt"])
        assert all(f"p response {path}" in last_turn(row["prompt"]) for path in row["references"])


def test_golds_are_in_no_prompt():
    """With swapped golds the prompts of online training are the same, and their completions empty."""
    right = [True] + [False] * 7
    rows = [made([judged("p", right, gold=gold)], draws=5, supervised=False).rows for gold in "43"]
    assert rows[0] == rows[1]
    assert {row["completion"] for row in rows[0]} == {""}


def test_messages_are_compacted():
    """References are messages, completions whole responses."""
    question = judged("p", [True] + [False] * 7)
    thoughtful = CachedQuestion(
        problem=question.cached.problem,
        conversation=TURNS,
        responses=[f"thought {text}" for text in question.cached.responses],
    )
    [row] = made([JudgedQuestion(cached=thoughtful, right=question.right)]).rows
    assert row["completion"] == "thought p response 0"
    assert "thought" not in last_turn(row["prompt"])


def test_too_few_messages_give_no_episode():
    """Three responses, one of them the completion: two references at most, and three are asked for."""
    question = judged("p", [True, False, False])
    episodes = made([question], references=(3, 4), max_mean_right=1.0)
    assert episodes.rows == []
    assert episodes.counts["too_few_messages"] == 1


def test_references_that_do_not_fit_are_dropped():
    """Room for one: one is shown, the others are counted."""
    form = PromptForm(
        render=FORM.render,
        fits=lambda prompt: "Candidate solution 2" not in prompt,
        message_of=FORM.message_of,
    )
    episodes = made([judged("p", [True] + [False] * 7)], form=form, references=(3, 3))
    assert [len(row["references"]) for row in episodes.rows] == [1]
    assert episodes.counts["references_dropped"] == 2


def test_bounds_in_the_wrong_order_are_refused():
    """The fewest come first."""
    with pytest.raises(ValueError, match="fewest first"):
        EpisodeParams(references=(4, 2))
