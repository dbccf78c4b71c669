"""The second filter: kept questions by hand, resume, calls that fail."""

import pytest

from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import FinishReason
from pipeline_lib.store.journal import open_journal
from pipeline_lib.systems.pacore.episodes import filter_by_syntheses
from pipeline_lib.verify.dispatch import open_verifier
from tests.unit.systems.pacore.test_episodes import judged

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


def test_the_filter_by_hand(run):
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
