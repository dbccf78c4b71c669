"""Caches of responses in the published format and as paths."""

import json

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.systems.pacore.message_cache import published_rows, read_cache

PUBLISHED = {
    "conversation": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is 6 times 7?"},
    ],
    "responses": ["It is \\boxed{42}.", "\\boxed{41}"],
    "ground_truth": "42",
}


def written(tmp_path, *rows):
    path = tmp_path / "cache.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def test_the_published_format(tmp_path):
    """Turns, responses and gold; a line without id is named by its number."""
    [found] = read_cache(written(tmp_path, PUBLISHED), kind="math")
    assert found.problem.id == "line-1"
    assert found.problem.gold == MathGold(answer="42")
    assert [turn.content for turn in found.conversation] == ["Be brief.", "What is 6 times 7?"]
    assert found.responses == ("It is \\boxed{42}.", "\\boxed{41}")


def test_it_is_written_as_it_is_read(tmp_path):
    """Reading what was written gives equal questions."""
    found = read_cache(written(tmp_path, PUBLISHED, PUBLISHED | {"id": "b"}), kind="math")
    rows = published_rows(found)
    assert rows[0].items() >= PUBLISHED.items()
    assert read_cache(written(tmp_path, *rows), kind="countdown") == found


def test_paths_of_one_problem_are_its_responses(tmp_path):
    """The question with the kind's instruction is the conversation; a failed path gives no response."""
    line = {"kind": "countdown", "numbers": [3, 5], "target": 8, "question": "3 and 5 into 8?"}
    rows = [line | {"problem_id": "p", "text": text} for text in ("3+5=8", None, "5-3=8")]
    [found] = read_cache(written(tmp_path, *rows), kind="math")
    assert found.responses == ["3+5=8", "5-3=8"]
    assert found.problem.gold == CountdownGold(numbers=(3, 5), target=8)
    [turn] = found.conversation
    assert turn.content.startswith("3 and 5 into 8?\n\nUse each number")
    with pytest.raises(BadInputError, match="countdown have no place"):
        published_rows([found])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no questions"),
        ([PUBLISHED | {"responses": []}], ":1: responses"),
        ([PUBLISHED | {"conversation": [{"role": "system", "content": "a"}]}], "the user's"),
        ([{"conversation": PUBLISHED["conversation"], "responses": ["a"]}], ":1: ground_truth"),
        ([PUBLISHED | {"kind": "maths"}], "kind='maths'"),
        ([PUBLISHED | {"id": "a"}] * 2, ":2: id: 'a' is also at line 1"),
        ([{"id": "a#0", "problem_id": "a", "gold": "1", "text": "1"}] * 2, ":2: id: 'a#0' is also"),
    ],
)
def test_unusable_caches(tmp_path, rows, message):
    """One line with the place."""
    with pytest.raises(BadInputError, match=message):
        read_cache(written(tmp_path, *rows), kind="math")
