"""Settings from params and a model: compaction, the context, models without a chat template."""

import pathlib

import pytest

from benchmarks.lib.scripted import ScriptedModel
from pipeline_lib.engines.chat_model import Message
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.pacore import Compaction, ComparisonParams, EarlyStop, PacoreParams, Rsa
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.systems.pacore.settings import check_lengths, open_setting
from pipeline_lib.systems.pacore.solution import Question
from pipeline_lib.systems.pacore.trials import make_strategies
from tests.unit.systems.pacore.scripted_chat import PlainTurns, text_of

PLAIN = PlainTurns()


def model(context=None, chat_format=PLAIN):
    return ScriptedModel(answer=text_of, chat_format=chat_format, context_tokens=context)


HOSTILE = pathlib.Path(__file__).parents[2] / "own" / "hostile.py"


def opened(params, served=None, verify=None):
    return open_setting(served or model(), params, verify or VerifyParams(), seed=7)


def test_the_base_is_of_the_same_workspace():
    """Stages that make the base take none of another workspace: one line with both keys."""
    with pytest.raises(ValueError, match=r"source=runs/7; .* start=policy, not start=base"):
        PacoreParams(start="base", source="runs/7")


@pytest.mark.parametrize(
    ("compaction", "text", "message"),
    [
        ("conclusion", "<think>6 * 7</think> It is 42. ", "It is 42."),
        ("conclusion", "no tag at all ", "no tag at all"),
        ("conclusion", "<think>all of it</think> \n", None),
        ("answer", "<think>\\boxed{41}</think> so \\boxed{42}", "42"),
        ("answer", "no idea", None),
        ("model", " a summary ", "a summary"),
    ],
)
def test_compaction(compaction, text, message):
    """What later rounds see of a text; None for a text without it."""
    with opened(PacoreParams(compaction=Compaction(compaction))) as setting:
        assert setting.form.message_of(text) == message
        assert (setting.summary is not None) == (compaction == "model")


def test_answers_of_an_early_stop_are_compared_by_value():
    """1/2 and 0.5 are one answer; each question starts anew."""
    params = PacoreParams(early_stop=EarlyStop())
    with opened(params) as setting:
        number = setting.open_answers()
        assert [number(f"\\boxed{{{text}}}") for text in ("1/2", "3", "0.5")] == [0, 1, 0]
        assert setting.open_answers()("\\boxed{3}") == 0


def test_answers_in_the_form_of_a_task():
    """Its last word in lower case, in messages and in votes; a text without an answer has neither."""
    verify = VerifyParams(verifier=f"{HOSTILE}:verify", answer=f"{HOSTILE}:answer", of_task=True)
    params = PacoreParams(kind="own", compaction=Compaction.ANSWER)
    with opened(params, verify=verify) as setting:
        assert [setting.form.message_of(text) for text in ("It is FOUR", "none")] == ["four", None]
        number = setting.open_answers()
        assert [number(text) for text in ("four", "is FOUR", "five", "none")] == [0, 0, 1, None]


def test_a_question_longer_than_the_context_is_named():
    """A prompt of 4 words in a context of 10 leaves 6."""
    asked = [Question(id="long", conversation=[Message.user("one two three")])]
    with opened(PacoreParams(max_new_tokens=6), model(context=10)) as setting:
        check_lengths(asked, setting)
    with (
        opened(PacoreParams(max_new_tokens=7), model(context=10)) as setting,
        pytest.raises(BadInputError, match=r"question long: too long.*max_new_tokens=7"),
    ):
        check_lengths(asked, setting)


def test_a_summary_needs_room_for_its_own_tokens():
    """A prompt of 4 words in a context of 10: room for a summary of 6 tokens and an answer of 9, not for 7."""
    params = PacoreParams(compaction=Compaction.MODEL, max_new_tokens=9, summary_tokens=6)
    for tokens, fits in ((6, True), (7, False)):
        changed = params.model_copy(update={"summary_tokens": tokens})
        with opened(changed, model(context=10)) as setting:
            assert setting.summary_fits("one two three four") is fits


def test_a_model_of_compact_prompts_cannot_summarize():
    """Its template shows the last message alone, so a request for a summary would be its question."""
    with (
        pytest.raises(BadInputError, match=r"compaction=model.*give conclusion or answer"),
        opened(
            PacoreParams(compaction=Compaction.MODEL),
            model(chat_format=PlainTurns(is_compact=True)),
        ),
    ):
        pass


def test_an_unknown_context_fits_all():
    """A server without a local tokenizer answers for itself."""
    with opened(PacoreParams(max_new_tokens=10**6)) as setting:
        check_lengths([Question(id="q", conversation=[Message.user("a")])], setting)


def test_a_model_without_a_chat_template_is_refused():
    """Questions are conversations; the message names the remedy."""
    with (
        pytest.raises(BadInputError, match=r"no chat template.*instruct model"),
        opened(PacoreParams(), model(chat_format=None)),
    ):
        pass


@pytest.mark.parametrize(
    ("minimum", "early"),
    [(3, ["rounds 4,1, early stop"]), (4, ["rounds 9,2,1, early stop"]), (9, [])],
)
def test_an_early_stop_is_compared_in_the_first_wider_round(minimum, early):
    """With a group as wide as the round there is nothing to stop."""
    compared = ComparisonParams(
        widths=((4,), (9, 2)),
        greedy=False,
        other_references=False,
        early_stop=EarlyStop(minimum=minimum),
        rsa=Rsa(population=6, subset=2, steps=3),
    )
    names = [one.name for one in make_strategies(PacoreParams(evaluate=compared), problems=2)]
    widths = ["rounds 4,1", "rounds 9,2,1"]
    assert names == ["plain", *widths, *early, "RSA 6, subsets of 2, 3 steps"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"final": "vote"}, "pacore.final=vote: solve, batch and serve vote"),
        ({"weights": {"A": 1.0}}, "has A, and the models of --with are none"),
    ],
)
def test_votes_and_weights_where_there_are_none(params, message):
    """An evaluation or a cache has no vote; one model needs no weight."""
    with pytest.raises(BadInputError, match=message), opened(PacoreParams(**params)):
        pass
