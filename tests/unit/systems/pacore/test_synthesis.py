"""Synthesis prompts replace the last user message alone."""

from pipeline_lib.systems.pacore.solution import (
    summary_prompt,
    synthesis_prompt,
)
from tests.unit.systems.pacore.scripted_chat import TURNS, PlainTurns

REFERENCES = [(2, "It is 42."), (0, "It is 41.")]


def test_problem_and_references_in_the_given_order():
    """The question comes first, then the references, numbered from 1."""
    text = synthesis_prompt(TURNS, REFERENCES, PlainTurns())[-1].content
    places = [
        text.index(part)
        for part in (
            "What is 6 times 7?",
            "Candidate solution 1:\nIt is 42.",
            "Candidate solution 2:\nIt is 41.",
        )
    ]
    assert places == sorted(places)
    assert "2 candidate solutions" in text


def test_the_compact_form():
    """Question, numbered references and an exclamation mark, a line each, without words."""
    prompt = synthesis_prompt(TURNS, REFERENCES, PlainTurns(is_compact=True))
    assert prompt[-1].content == "What is 6 times 7?\n#1\nIt is 42.\n#2\nIt is 41.\n!"


def test_a_summary_follows_the_path():
    """The path is the model's own turn, and the request the user's."""
    prompt = summary_prompt(TURNS, "6 times 7 is 42.")
    assert prompt[: len(TURNS)] == TURNS
    assert [turn.role.value for turn in prompt[len(TURNS) :]] == ["assistant", "user"]
    assert prompt[-2].content == "6 times 7 is 42."
