"""What another process sends is an answer, or a failure of the peer."""

import pytest

from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.records import FinishReason
from pipeline_lib.systems.classmate.peer import PeerFailedError, check_answer
from tests.unit.systems.classmate.peer_models import QUESTIONS

DRAWN = Completion(
    text="8", finish_reason=FinishReason.STOP, prompt_tokens=3, completion_tokens=1, logprob=-0.5
)
ANSWER = [[DRAWN, DRAWN], [DRAWN]]
"""For two seeds, and for one."""


def test_an_answer_passes():
    """One continuation for each seed of each question."""
    assert check_answer(ANSWER, QUESTIONS) is ANSWER


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        "x" * 1000,
        [],
        ANSWER[:1],
        [*ANSWER, []],
        [[DRAWN], [DRAWN]],
        [[DRAWN, None], [DRAWN]],
        [None, [DRAWN]],
        ["ab", "c"],
    ],
)
def test_garbage_is_a_failure(garbage):
    """The reason is one short line with the beginning of what came."""
    with pytest.raises(PeerFailedError, match=r"^its answer .*: ") as raised:
        check_answer(garbage, QUESTIONS)
    assert len(str(raised.value)) < 200
    assert "\n" not in str(raised.value)
