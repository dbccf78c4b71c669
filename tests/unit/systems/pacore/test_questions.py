"""Input lines of `pacore batch`."""

import json

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.systems.pacore.questions import read_questions

ASK = [{"role": "user", "content": "What is 6 times 7?"}]


def written(tmp_path, *lines):
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return path


def test_a_question_with_further_fields(tmp_path):
    """Turns in order; the id as given; other fields are kept."""
    turns = [{"role": "system", "content": "Be brief."}, *ASK]
    [line] = read_questions(written(tmp_path, {"id": 3, "messages": turns, "level": "easy"}))
    assert [(turn.role.value, turn.content) for turn in line.question.conversation] == [
        ("system", "Be brief."),
        ("user", "What is 6 times 7?"),
    ]
    assert (line.question.id, line.request_id, line.further) == ("3", 3, {"level": "easy"})


def test_a_question_with_responses(tmp_path):
    """Texts of the first round; no further field."""
    [line] = read_questions(written(tmp_path, {"id": 3, "messages": ASK, "responses": ["a", "b"]}))
    assert (line.question.responses, line.further) == (("a", "b"), {})


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "no questions"),
        ([{"messages": ASK}], ":1: id: Field required"),
        ([{"id": "a", "messages": ASK}] * 2, ":2: id: 'a' is also at line 1"),
        ([{"id": "1", "messages": ASK}, {"id": 1, "messages": ASK}], ":2: id: '1' is also"),
        ([{"id": "a"}], ":1: messages: Field required"),
        ([{"id": "a", "messages": ASK, "responses": []}], ":1: responses"),
        ([{"id": "a", "messages": ASK, "responses": [1]}], ":1: responses"),
        ([{"id": "a", "messages": []}], ":1: messages"),
        ([{"id": "a", "messages": [{"role": "system", "content": "x"}]}], "must be the user's"),
        ([{"id": "a", "messages": [*ASK, {"role": "assistant", "content": "x"}]}], "the user's"),
        ([{"id": "a", "messages": [{"role": "tool", "content": "x"}]}], ":1: messages.0.role"),
        ([{"id": "a", "messages": [{"role": "user", "content": 3}]}], ":1: messages.0.content"),
        (
            [{"id": "a", "messages": [{"role": "user", "content": "\ud800"}]}],
            "surrogate is not text",
        ),
        ([{"id": "a", "messages": ASK, "responses": ["b", "\udfff"]}], ":1: responses.1: a lone"),
        ([{"id": "a", "messages": ASK, "usage": 1}], ":1: usage: the output has a field"),
    ],
)
def test_unusable_lines(tmp_path, lines, message):
    """File, line, field and remedy in one line."""
    with pytest.raises(BadInputError) as caught:
        read_questions(written(tmp_path, *lines))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
