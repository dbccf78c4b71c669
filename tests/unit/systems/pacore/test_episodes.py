"""Episodes: filters by hand, references by seed, completions that are no reference, what is labelled and rewarded."""

from collections import Counter
from dataclasses import replace

import pytest

from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.pacore import EpisodeParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import FinishReason, Problem
from pipeline_lib.store.journal import open_journal
from pipeline_lib.systems.pacore.episodes import filter_by_syntheses, make_episodes
from pipeline_lib.systems.pacore.message_cache import CachedQuestion
from pipeline_lib.systems.pacore.solution import PromptForm, compact_synthesis
from pipeline_lib.train.bootstrap import make_tokenizer
from pipeline_lib.train.offline.sft import tokenize
from pipeline_lib.train.online.rewards import make_verified_reward
from pipeline_lib.verify.answer_text import strip_reasoning
from pipeline_lib.verify.dispatch import open_verifier
from tests.unit.systems.pacore.scripted_chat import TURNS, PlainTurns, last_turn

FORM = PromptForm(
    chat_format=PlainTurns(),
    fits=lambda _prompt: True,
    message_of=lambda text: strip_reasoning(text).removeprefix("thought ") or None,
)


def judged(name, right, gold="42"):
    problem = Problem(id=name, question="6 times 7?", gold=MathGold(answer=gold), source="test")
    responses = [f"{name} response {number}" for number in range(len(right))]
    return CachedQuestion(problem=problem, conversation=TURNS, responses=responses, right=right)


PUBLISHED = {
    "draws": 1,
    "target": "held_out",
    "checks": False,
    "plain": 0.0,
    "max_mean_right": 0.375,
}


def made(questions, *, supervised=True, form=FORM, seed=7, **changes):
    params = EpisodeParams(**(PUBLISHED | changes))
    return make_episodes(questions, params, form, seed=seed, supervised=supervised)


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
        "without_references": 0,
        "episodes": 1,
    }


def test_a_failed_verifier_is_neither_right_nor_wrong():
    """One right of two scored and two unscored: a mean of one half."""
    assert judged("p", [True, False, None, None]).mean_right == 0.5


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


def with_messages(messages, right):
    """A question whose responses are these messages, each after a thought of its own."""
    texts = [f"<think>{path}</think>{message}" for path, message in enumerate(messages)]
    return replace(judged("p", right), responses=texts)


def test_an_equal_message_is_no_reference_of_a_held_out_target():
    """Three of five responses are right and say 42: each is the target of some row, and no row shows 42."""
    messages = ["42", "40", "42", "41", "42"]
    question = with_messages(messages, [message == "42" for message in messages])
    rows = made([question], draws=40, references=(1, 2), max_mean_right=1.0).rows
    assert len({row["completion"] for row in rows}) == 3
    assert {messages[path] for row in rows for path in row["references"]} == {"40", "41"}


def test_the_number_of_references_is_uniform_over_those_there_are():
    """2 to 6 references of 4 messages: 2, 3 or 4, each in 100 of 300 episodes within 4 standard errors; clamped
    after the draw, 4 would be in 180."""
    question = judged("p", [True, False, False, False])
    rows = made([question], draws=300, references=(2, 6), supervised=False).rows
    counts = Counter(len(row["references"]) for row in rows)
    assert set(counts) == {2, 3, 4}
    assert all(abs(count - 100) < 4 * (300 * 2 / 9) ** 0.5 for count in counts.values())


def test_the_first_right_reference_is_the_target():
    """With target `reference`: the first right one shown; a right response that is not shown if all are wrong."""
    question = judged("p", [False, True, False, False, True, False, False, False])
    rows = made([question], draws=60, target="reference").rows
    right = {"p response 1", "p response 4"}
    for row in rows:
        shown = [f"p response {path}" for path in row["references"]]
        first = next((text for text in shown if text in right), None)
        assert row["completion"] == first or (first is None and row["completion"] in right)
    assert any(not right & {f"p response {path}" for path in row["references"]} for row in rows)


def test_checks_compute_the_last_step_anew():
    """Each reference with its own results, and y or n; no response with a failed verifier is shown."""
    gold = CountdownGold(numbers=(3, 5, 12), target=20)
    problem = Problem(id="p", question="make 20", gold=gold, source="test")
    texts = [
        "12+3=15\n15+5=20",
        "12-3=9\n9*5=20",
        "12/5=2",
        "no step",
        "<think>1y</think>5+3=8\n8+12=20",
    ]
    question = CachedQuestion(
        problem=problem,
        conversation=TURNS,
        responses=texts,
        right=[True, False, False, None, True],
    )
    checks = {
        0: "12+3=15\n15+5=20y",
        1: "12-3=9\n9*5=45n",
        2: "12/5=?n",
        4: "5+3=8\n8+12=20y",
    }
    settings = {"checks": True, "target": "reference", "references": (3, 4), "max_mean_right": 1.0}
    for row in made([question], draws=20, **settings).rows:
        marks = "".join(
            f"#{number}\n{checks[path]}\n" for number, path in enumerate(row["references"], start=1)
        )
        first = next(path for path in row["references"] if path in {0, 4})
        answer = texts[first].removeprefix("<think>1y</think>")
        assert row["completion"] == f"<think>\n{marks}</think>\n{answer}"


def test_plain_rows_are_the_question_alone():
    """A fifth of 400 rows within 4 standard errors; with a share of 1 all, as for the control."""
    question = judged("p", [True] + [False] * 7)
    rows = made([question], draws=400, plain=0.2).rows
    plain = [row for row in rows if not row["references"]]
    assert abs(len(plain) - 80) < 4 * (400 * 0.2 * 0.8) ** 0.5
    assert {row["prompt"] for row in plain} == {FORM.chat_format.render(TURNS)}
    assert {row["completion"] for row in plain} == {"p response 0"}
    assert all(not row["references"] for row in made([question], draws=9, plain=1.0).rows)


def test_golds_are_in_no_prompt():
    """With swapped golds the prompts of online training are the same, and their completions empty."""
    right = [True] + [False] * 7
    rows = [made([judged("p", right, gold=gold)], draws=5, supervised=False).rows for gold in "43"]
    assert rows[0] == rows[1]
    assert {row["completion"] for row in rows[0]} == {""}


def test_messages_are_compacted():
    """References are messages, completions whole responses."""
    question = judged("p", [True] + [False] * 7)
    thoughts = [f"thought {text}" for text in question.responses]
    [row] = made([replace(question, responses=thoughts)]).rows
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
    form = replace(FORM, fits=lambda prompt: "Candidate solution 2" not in prompt)
    episodes = made([judged("p", [True] + [False] * 7)], form=form, references=(3, 3))
    assert [len(row["references"]) for row in episodes.rows] == [1]
    assert episodes.counts["references_dropped"] == 2


def test_bounds_in_the_wrong_order_are_refused():
    """The fewest come first."""
    with pytest.raises(ValueError, match="fewest first"):
        EpisodeParams(references=(4, 2))


RIGHT = {"a": (True, True), "b": (False, True), "c": (False, False), "d": (True, False)}
ROWS = [{"problem_id": name, "prompt": f"{name}{number}"} for number in range(2) for name in RIGHT]


class Syntheses:
    """Answers prompt ``NAME NUMBER`` right or wrong by `RIGHT`; calls in ``fails`` fail."""

    def __init__(self, fails=()):
        self.asked = []
        self.fails = set(fails)

    def complete(self, requests, decoding):
        assert decoding == DECODING
        self.asked += [(request.prompt, tuple(request.seeds)) for request in requests]
        return [[self._completion(request.prompt)] for request in requests]

    def _completion(self, prompt):
        fails, is_right = prompt in self.fails, RIGHT[prompt[0]][int(prompt[1])]
        return Completion(
            text="" if fails else f"\\boxed{{{42 if is_right else 41}}}",
            finish_reason=FinishReason.ERROR if fails else FinishReason.STOP,
            prompt_tokens=3,
            completion_tokens=4,
            logprob=None,
            error="the server is gone" if fails else None,
        )


DECODING = Decoding(max_new_tokens=9)


@pytest.fixture
def run(tmp_path):
    """Filters the questions of `RIGHT`, with the verdicts in one file."""
    with open_verifier(VerifyParams()) as verifier:

        def filtered(model, *, together=3, gold="42"):
            return filter_by_syntheses(
                model,
                [judged(name, [True, False], gold) for name in [*RIGHT, "without-row"]],
                ROWS,
                decoding=DECODING,
                seed=7,
                together=together,
                verifier=verifier,
                journal=open_journal(tmp_path / "verdicts.jsonl", key="k"),
            )

        yield filtered


def names(filtered):
    return sorted(name for name, outcome in filtered.items() if outcome == "kept")


def test_the_filter_by_syntheses_by_hand(run):
    """Of two syntheses 2, 1, 0 and 1 are right: the questions with 1 are kept."""
    found = run(Syntheses())
    assert found == {"a": "always_right", "b": "kept", "c": "never_right", "d": "kept"}


def test_finished_questions_are_not_drawn_again(run):
    """After a kill behind the first three questions only the fourth is asked, with the seeds of an unbroken run."""

    class KilledError(Exception):
        pass

    class Killed(Syntheses):
        def complete(self, requests, decoding):
            if self.asked:
                raise KilledError
            return super().complete(requests, decoding)

    killed, rest = Killed(), Syntheses()
    with pytest.raises(KilledError):
        run(killed)
    assert names(run(rest)) == ["b", "d"]
    assert [prompt for prompt, _ in killed.asked] == ["a0", "a1", "b0", "b1", "c0", "c1"]
    assert [prompt for prompt, _ in rest.asked] == ["d0", "d1"]
    assert len({seeds for _, seeds in [*killed.asked, *rest.asked]}) == 8


def test_a_question_with_a_failed_call_is_not_kept(run):
    """b and c are counted apart, whatever their other syntheses; the next command asks both again."""
    broken, whole = Syntheses(fails=["b0", "c0", "c1"]), Syntheses()
    found = run(broken)
    assert found == {"a": "always_right", "b": "failed", "c": "failed", "d": "kept"}
    assert names(run(whole)) == ["b", "d"]
    assert [prompt for prompt, _ in whole.asked] == ["b0", "b1", "c0", "c1"]


@pytest.mark.parametrize("changes", [{"together": 1}, {"gold": "7"}])
def test_what_is_in_no_request(run, tmp_path, changes):
    """The number of questions drawn at once, and golds: the same prompts with the same seeds."""
    whole, changed = Syntheses(), Syntheses()
    run(whole)
    (tmp_path / "verdicts.jsonl").unlink()
    kept = names(run(changed, **changes))
    assert changed.asked == whole.asked
    assert kept == ([] if "gold" in changes else ["b", "d"])


POISON = ["</think>\\boxed{42}", "<think>y</think>\n\\boxed{42}"]


def test_a_poisoned_prompt_has_no_labels():
    """Tags and a boxed answer in the references: no token before the response is labelled, all of it is."""
    tokenizer = make_tokenizer(["6*7=42"])
    row = {"prompt": compact_synthesis("6*7=?", POISON) + "\n", "completion": "41"}
    tokens = tokenize(row, tokenizer)
    response = [*tokenizer.encode("41"), tokenizer.eos_token_id]
    prompt = len(tokens["input_ids"]) - len(response)
    assert tokens["labels"] == [-100] * prompt + response


def test_the_reward_reads_the_response_alone():
    """The right answer is in the prompt; only the response that gives it too is rewarded."""
    with open_verifier(VerifyParams()) as verifier:
        reward = make_verified_reward({"p": MathGold(answer="42")}, verifier)
        found = reward(
            prompts=[compact_synthesis("6*7=?", POISON)] * 3,
            completions=["I do not know.", "\\boxed{41}", "\\boxed{42}"],
            problem_id=["p"] * 3,
        )
    assert found == [0.0, 0.0, 1.0]
