"""Consensus of several answers to a question, by hand, and of files of texts."""

import json

import pytest

from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import StrategyParams
from pipeline_lib.params.pacore import PacoreParams
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.pacore.consensus import (
    Method,
    consensus_of_file,
    elect,
    elect_path,
    weights_by_accuracy,
)

ANSWERS = [0, 1, 1, None]
SCORES = [0.9, 0.3, 0.4, 5.0]
LINEAR = StrategyParams(borda_power=1)


@pytest.mark.parametrize(
    ("method", "place", "votes"),
    [
        (Method.MAJORITY, 1, 2),
        # .9 against .3 + .4; a text without an answer has no vote, whatever its score.
        (Method.WEIGHTED, 0, 1),
        # Ranks 2, 4, 3 of four: 3 votes against 1 + 2, a tie.
        (Method.BORDA, 0, 1),
        (Method.BEST, 3, 0),
    ],
)
def test_each_rule(method, place, votes):
    """The earliest text of the leading answer, and the texts that share it."""
    tied = method is Method.BORDA
    assert elect(ANSWERS, SCORES, method, LINEAR) == (place, votes, tied)


def test_no_answer_and_equal_answers_are_no_tie():
    """The first text, without a vote; two texts with the best score and the same answer agree."""
    assert elect([None, None], [], Method.MAJORITY, LINEAR) == (0, 0, False)
    assert elect([3, 3], [1.0, 1.0], Method.BEST, LINEAR) == (0, 2, False)


ROUND = {"request_id": "p", "round_responses": [[{"content": "\\boxed{5}"}]]}


def rule(method=Method.MAJORITY, score=None, round_number=1):
    return {"method": method, "score": score, "round_number": round_number}


def lines(*texts, **further):
    return [{"problem_id": "p", "text": text, **further} for text in texts]


def run(tmp_path, rows, wanted, params=None):
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    counts = consensus_of_file(source, output, params or Params(), **wanted)
    return counts, [json.loads(line) for line in output.read_text("utf-8").splitlines()]


def test_equivalent_answers_are_one(tmp_path):
    """1/2, 0.5 and 50/100 outvote two threes."""
    texts = [
        "\\boxed{3}",
        "so \\boxed{0.5}",
        "\\boxed{1/2}",
        "\\boxed{3}",
        "\\boxed{\\frac{50}{100}}",
    ]
    counts, [row] = run(tmp_path, lines(*texts), rule())
    assert row["text"] == "so \\boxed{0.5}"
    assert (row["votes"], row["texts"], row["answers"], row["tied"]) == (3, 5, 2, False)
    assert counts == {"questions": 1, "texts": 5, "tied": 0, "without an answer": 0}


def test_a_gold_in_the_file_changes_nothing(tmp_path):
    """Lines with golds and labels, right or swapped, give the same output."""
    texts = ["\\boxed{3}", "\\boxed{4}", "\\boxed{4}"]
    outputs = [
        run(tmp_path, lines(*texts, **further), rule())[1]
        for further in ({}, {"gold": "3", "label": True}, {"gold": "4", "label": False})
    ]
    assert outputs[0] == outputs[1] == outputs[2]


def test_probability_per_token_weighs(tmp_path):
    """exp(-1/2) = .61 beats 2 exp(-4/2) = .27; an empty text has the probability of its one end, exp(-.4) = .67."""
    one, *two = [
        {"problem_id": "p", "text": f"\\boxed{{{n}}}", "logprob": logprob, "completion_tokens": 2}
        for n, logprob in ((1, -1.0), (2, -4.0), (2, -4.0))
    ]
    empty = {**one, "text": "\\boxed{3}", "logprob": -0.4, "completion_tokens": 0}
    assert run(tmp_path, [one, *two], rule(Method.WEIGHTED))[1][0]["text"] == "\\boxed{1}"
    assert run(tmp_path, [one, empty], rule(Method.WEIGHTED))[1][0]["text"] == "\\boxed{3}"
    assert run(tmp_path, [one, *two], rule())[1][0]["text"] == "\\boxed{2}"


def test_a_column_of_scores(tmp_path):
    """The best of the column, of each question apart."""
    rows = [
        {"problem_id": name, "text": f"\\boxed{{{number}}}", "reward": number}
        for number in range(3)
        for name in "ba"
    ]
    _, found = run(tmp_path, rows, rule(Method.BEST, score="reward"))
    assert [(row["problem_id"], row["text"]) for row in found] == [
        ("b", "\\boxed{2}"),
        ("a", "\\boxed{2}"),
    ]


def test_any_column_of_numbers_can_be_the_score(tmp_path):
    """`logprob`, which has a meaning of its own, too: -1 is better than -2, whatever the tokens."""
    rows = [
        {"problem_id": "p", "text": f"\\boxed{{{number}}}", "logprob": -number}
        for number in (2, 1, 3)
    ]
    [row] = run(tmp_path, rows, rule(Method.BEST, score="logprob"))[1]
    assert row["text"] == "\\boxed{1}"


def test_a_round_of_pacore_batch(tmp_path):
    """The first round by default, the last one on request."""
    row = {
        "request_id": "q",
        "round_responses": [
            [{"content": f"\\boxed{{{number}}}"} for number in (5, 6, 6)],
            [{"content": "\\boxed{5}"}],
        ],
    }
    assert run(tmp_path, [row], rule())[1][0]["text"] == "\\boxed{6}"
    assert run(tmp_path, [row], rule(round_number=2))[1][0]["text"] == "\\boxed{5}"


def mixed(*responses, name="q", **fields):
    """A line of `pacore batch --with`, from (number, model, log-probability)."""
    drawn = [
        {
            "content": f"\\boxed{{{number}}}",
            "model": model,
            "logprob": logprob,
            "completion_tokens": 2,
        }
        for number, model, logprob in responses
    ]
    return {"request_id": name, "round_responses": [drawn], **fields}


def test_votes_of_models_by_probability_or_weight(tmp_path):
    """Two paths of B outvote A, unless A is surer by far (1 against 2 exp(-2)), or B's weight is low."""
    row = mixed((1, "A", 0.0), (2, "B", -4.0), (2, "B", -4.0))

    def text(method, **weights):
        params = Params(pacore=PacoreParams(weights=weights))
        return run(tmp_path, [row], rule(method), params)[1][0]["text"]

    assert text(Method.MAJORITY) == "\\boxed{2}"
    assert text(Method.WEIGHTED) == "\\boxed{1}"
    assert text(Method.WEIGHTED, A=0.6, B=0.5) == "\\boxed{2}"
    assert text(Method.WEIGHTED, A=0.6, B=0.2) == "\\boxed{1}"
    with pytest.raises(BadInputError, match="no weight for model B"):
        text(Method.WEIGHTED, A=0.6)


def test_weights_by_accuracy(tmp_path):
    """Shares of right responses by model; a failed response does not count, a question needs a gold answer."""
    source = tmp_path / "known.jsonl"
    rows = [
        mixed((4, "A", 0.0), (4, "B", 0.0), (5, "B", 0.0), gold="4"),
        mixed((0.5, "A", 0.0), (3, "B", 0.0), name="r", gold="1/2"),
        {"request_id": "s", "error": "the last call failed"},
    ]
    rows[0]["round_responses"][0].append({"content": None, "model": "A"})
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    assert weights_by_accuracy(source, Params(), round_number=1) == {"A": 1.0, "B": 0.3333}
    source.write_text(json.dumps(mixed((4, "A", 0.0))), "utf-8")
    with pytest.raises(BadInputError, match=r"known.jsonl:1.*gold"):
        weights_by_accuracy(source, Params(), round_number=1)


def test_the_vote_of_a_round_is_the_consensus_of_its_file():
    """Failed paths have no vote, and without any text the first one, an error, is the answer."""
    texts = [None, "\\boxed{3}", "\\boxed{4}", "\\boxed{4}"]
    drawn = [
        Completion.failed("no")
        if text is None
        else Completion(
            text=text, finish_reason="stop", prompt_tokens=1, completion_tokens=1, logprob=-1.0
        )
        for text in texts
    ]
    params = PacoreParams(final="vote")
    number = {"\\boxed{3}": 0, "\\boxed{4}": 1}.get
    assert elect_path(drawn, number, params) == 2
    assert elect_path(drawn[:1], number, params) == 0


def test_failed_requests_are_no_ballots(tmp_path):
    """A null text does not count; a question without texts has no line and is unanswered."""
    rows = [
        {"request_id": "a", "round_responses": [[{"content": "\\boxed{5}"}, {"content": None}]]},
        {"request_id": "b", "error": "the last call failed"},
        *({"problem_id": name, "text": None} for name in "cd"),
        *lines("\\boxed{7}"),
    ]
    counts, found = run(tmp_path, rows, rule())
    assert [(row["problem_id"], row["votes"], row["texts"]) for row in found] == [
        ("a", 1, 1),
        ("p", 1, 1),
    ]
    assert counts == {"questions": 5, "texts": 2, "tied": 0, "without an answer": 3}


@pytest.mark.parametrize(
    ("rows", "wanted", "message"),
    [
        ([], rule(), "no texts"),
        ([{"text": "a"}], rule(), ":1: problem_id"),
        ([{"problem_id": "p"}], rule(), ":1: text"),
        (lines("a", kind="maths"), rule(), "kind='maths'.*did you mean 'math'"),
        (lines("a", kind="code"), rule(), "kind='code'; expected one of"),
        (lines("a"), rule(Method.BEST), ":1: logprob: a score by probability needs it"),
        (lines("a", reward="x"), rule(Method.BEST, score="reward"), ":1: reward='x': .* a number"),
        (lines("a", reward=-1), rule(Method.WEIGHTED, score="reward"), "reward=-1: .* from 0 to"),
        (
            lines("a", logprob=-1.0),
            rule(Method.BORDA),
            ":1: completion_tokens: a score by probability needs",
        ),
        (
            lines("a", logprob=1e6, completion_tokens=1),
            rule(Method.WEIGHTED),
            ":1: logprob: .*less",
        ),
        (lines("a", logprob=-(10**400), completion_tokens=1), rule(Method.BEST), ":1: logprob"),
        (lines("a", reward=float("nan")), rule(Method.BEST, score="reward"), "reward=nan: method"),
        (lines("a", reward=10**400), rule(Method.BORDA, score="reward"), "to 1e\\+300"),
        (
            lines("a", logprob=-1.0),
            rule(Method.WEIGHTED, score="logprob"),
            "logprob=-1.0: method",
        ),
        (
            lines("a", reward=1),
            rule(score="reward"),
            "--score reward: method majority reads no scores",
        ),
        ([ROUND, *lines("a")], rule(), ":2: problem_id: 'p' has rounds"),
        ([*lines("a"), ROUND], rule(), ":2: request_id: 'p' is given twice"),
        (lines("a", id="p#0") * 2, rule(), ":2: id: 'p#0' is also at line 1"),
        ([{"request_id": "q", "round_responses": []}], rule(), "round 1: it has 0 rounds"),
        ([*lines("a"), *lines("b", kind="countdown")], rule(), "an earlier text has math"),
    ],
)
def test_unusable_files(tmp_path, rows, wanted, message):
    """One line with the place."""
    with pytest.raises(BadInputError, match=message):
        run(tmp_path, rows, wanted)
