"""A file of questions on an engine in this process: its lines, counts, groups, what a broken command leaves; caches."""

import json
from contextlib import nullcontext

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params_file import load_params
from pipeline_lib.systems.pacore.batch import read_questions, solve_file
from pipeline_lib.systems.pacore.message_cache import published_rows, read_cache
from tests.unit.systems.pacore.scripted_chat import scripted, text_of

NUM_QUESTIONS = 5
PARAMS = load_params(overrides=["pacore.widths=[2]", "pacore.problems_together=2"])


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "questions.jsonl"
    rows = [
        {"id": number, "messages": [{"role": "user", "content": f"What is {number}+1?"}]}
        for number in range(NUM_QUESTIONS)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


class Engine:
    """A model that records the questions of each batch; it dies in the batch of one question."""

    def __init__(self, *, dies_at=None, fails_at=frozenset()):
        self.batches = []
        self.dies_at = dies_at
        self.fails_at = fails_at
        self.model = scripted(self.answer)
        self.chat_format = self.model.chat_format
        self.identity = self.engine = "fake"

    def room(self, _prompt):
        return None

    def answer(self, prompt, seed):
        fails = "candidate solutions" in prompt and _question(prompt) in self.fails_at
        return None if fails else text_of(prompt, seed)

    def complete(self, requests, decoding):
        self.batches.append([_question(one.prompt) for one in requests])
        if self.dies_at in self.batches[-1]:
            raise KeyboardInterrupt
        return self.model.complete(requests, decoding)


def _question(prompt):
    return next(number for number in range(NUM_QUESTIONS) if f"What is {number}+1?" in prompt)


def solved(source, output, engine):
    return solve_file(source, output, opening=nullcontext(engine), params=PARAMS)


def test_calls_of_a_question_without_an_answer_count(source, tmp_path):
    """Five questions of 3 calls, of which the last one of two fails: 15 calls, 2 failed.

    The tokens are those of 5 questions: a text of one word a call, and none for a failed one.
    """
    whole = solved(source, tmp_path / "whole.jsonl", Engine())
    output = tmp_path / "answers.jsonl"
    found = solved(source, output, Engine(fails_at={1, 3}))
    assert (found.calls, found.failed_calls, len(found.errors)) == (15, 2, 2)
    assert whole.tokens - found.tokens == 2
    again = solved(source, output, Engine())
    assert (again.calls, again.failed_calls, again.tokens) == (15, 0, whole.tokens)


def test_an_interrupted_file_has_the_groups_of_an_unbroken_one(source, tmp_path):
    """Groups of 2 of 5 questions; 1 fails, the command dies at 2 and 3: then 1 alone, 2 with 3, 4 alone."""
    output = tmp_path / "answers.jsonl"
    with pytest.raises(KeyboardInterrupt):
        solved(source, output, Engine(dies_at=2, fails_at={1}))
    engine = Engine()
    found = solved(source, output, engine)
    assert engine.batches == [[1], [1], [2, 3], [2, 3], [4], [4]]
    assert found.num_continued == 1
    solved(source, tmp_path / "unbroken.jsonl", Engine())
    assert output.read_bytes() == (tmp_path / "unbroken.jsonl").read_bytes()


def test_given_responses_are_not_asked(source, tmp_path):
    """Two texts as the first round: none planned or asked there, and one call."""
    row = json.loads(source.read_text("utf-8").splitlines()[0]) | {"responses": ["a", "b"]}
    source.write_text(f"{json.dumps(row)}\n", "utf-8")
    output = tmp_path / "answers.jsonl"
    assert solved(source, output, Engine()).calls == 1
    rounds = json.loads(output.read_text("utf-8"))["rounds"]
    assert [(one["planned"], one["asked"], one["references"]) for one in rounds] == [
        (0, 0, 0),
        (1, 1, 2),
    ]


def test_responses_that_no_round_reads_are_refused(source, tmp_path):
    """With widths=[] there is one plain call; the engine is not opened."""
    row = json.loads(source.read_text("utf-8").splitlines()[0]) | {"responses": ["a", "b"]}
    source.write_text(f"{json.dumps(row)}\n", "utf-8")
    plain = load_params(overrides=["pacore.widths=[]"])
    engine = Engine()
    with pytest.raises(BadInputError, match=r"question 0: responses: .*give --set pacore.widths="):
        solve_file(source, tmp_path / "out.jsonl", opening=nullcontext(engine), params=plain)
    assert engine.batches == []


ASK = [{"role": "user", "content": "What is 6 times 7?"}]


def written(tmp_path, *lines):
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return path


def test_a_question_with_further_fields(tmp_path):
    """Turns in order; the id as given; other fields are kept."""
    turns = [{"role": "system", "content": "Be brief."}, *ASK]
    [found] = read_questions(written(tmp_path, {"id": 3, "messages": turns, "level": "easy"}))
    assert [turn.fields() for turn in found[0].conversation] == turns
    assert (found[0].id, found[1]) == ("3", {"request_id": 3, "level": "easy"})


def test_a_question_with_responses(tmp_path):
    """Texts of the first round; no further field."""
    [found] = read_questions(written(tmp_path, {"id": 3, "messages": ASK, "responses": ["a", "b"]}))
    assert (found[0].responses, found[1]) == (("a", "b"), {"request_id": 3})


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


PUBLISHED = {
    "conversation": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is 6 times 7?"},
    ],
    "responses": ["It is \\boxed{42}.", "\\boxed{41}"],
    "ground_truth": "42",
}


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
