"""Chains of the probe: lines in steps, questions that prompts need, donors of the control."""

import json

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.systems.classmate.probe.chains import check_questions, donors, read_chains
from tests.unit.systems.pacore.scripted_chat import PlainTurns

SUM = {"kind": "countdown", "numbers": [3, 5, 3], "target": 24, "text": "3+5=8\n8*3=24"}
WORDS = {"gold": "18", "question": "What is 9 + 9?", "text": "9 + 9 is\n\n18.\nSo 18."}


def written(tmp_path, *lines):
    path = tmp_path / "chains.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return path


def test_the_steps_of_a_line(tmp_path):
    """Two lines of Countdown are two steps, which joined are the text."""
    [chain] = read_chains(written(tmp_path, {"id": "a", **SUM}), step="\n")
    assert [*chain.steps] == ["3+5=8\n", "8*3=24"]
    assert (chain.id, chain.problem.gold.target) == ("a", 24)


def test_another_separator(tmp_path):
    """The same text is one step where steps end with an empty line that it lacks."""
    [chain] = read_chains(written(tmp_path, {"id": "a", **SUM}), step="\n\n")
    assert [*chain.steps] == [SUM["text"]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "no chains"),
        ([{"id": "a", **SUM}] * 2, ":2: id: 'a' is also at line 1"),
        ([{"problem_id": "a", **SUM}, {"id": "a#0", **SUM}], ":2: id: 'a#0' is also at line 1"),
        ([{"id": "a", **SUM, "text": None}], "'a': text: has no step"),
        ([{"id": "a", **SUM, "text": " \n "}], "'a': text: has no step"),
        ([{"id": "a", **SUM, "text": "3+5=8\ud800"}], "'a': text: has a lone surrogate"),
        ([{"id": "a", **SUM, "question": "\ud800"}], "'a': question: has a lone surrogate"),
        ([{"id": "a", "kind": "countdown", "text": "x"}], ":1: numbers"),
        ([{"id": "a", **SUM, "kind": "chess"}], ":1: kind='chess'"),
    ],
)
def test_unusable_files(tmp_path, lines, message):
    """File, line or id, and remedy in one line."""
    with pytest.raises(BadInputError) as caught:
        read_chains(written(tmp_path, *lines), step="\n")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_prompt_of_the_gold_needs_no_question(tmp_path):
    """Countdown without a question: a base model's prompt is `3,5,3=24`, a chat model's is in words."""
    chains = read_chains(written(tmp_path, {"id": "a", **SUM}), step="\n")
    check_questions(chains, None, peer="base")
    with pytest.raises(
        BadInputError, match=r"'a': question: is missing, and classmate chat .*words"
    ):
        check_questions(chains, PlainTurns(), peer="chat")


def test_a_prompt_in_words_needs_a_question(tmp_path):
    """Math has no compact prompt: without a question even a base model's prompt cannot be rendered."""
    asked, bare = {"id": "a", **WORDS}, {"id": "b", **WORDS, "question": ""}
    chains = read_chains(written(tmp_path, asked, bare), step="\n")
    check_questions(chains[:1], None, peer="base")
    with pytest.raises(BadInputError, match="'b': question"):
        check_questions(chains, None, peer="base")


def test_donors_are_of_other_problems(tmp_path):
    """Three chains of problem p and three of q: each has a donor of the other problem, the same for a seed."""
    lines = [{"id": f"{p}{n}", "problem_id": p, **SUM} for p in "pq" for n in range(3)]
    chains = read_chains(written(tmp_path, *lines), step="\n")
    found = donors(chains, seed=7)
    assert {name[0] + donor.id[0] for name, donor in found.items()} == {"pq", "qp"}
    assert len(found) == 6
    assert found == donors(chains, seed=7)
    assert any(found != donors(chains, seed=seed) for seed in range(8))
    with pytest.raises(BadInputError, match="--shuffled: all chains are of problem 'p'"):
        donors(chains[:3], seed=7)
