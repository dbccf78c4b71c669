"""The verifier of mixed batches: one verdict per item, in order."""

import psutil
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.kinds.arc import ArcGold
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.dispatch import Item, open_verifier

GOLD = CountdownGold(numbers=(3, 5, 3), target=24)
TEXTS = ("3+5=8\n8*3=24", "8*3=24", "no idea", "(3+5)*3", None, "\ud800", "(" * 10_000)


def _outcomes(verdicts):
    return [(v.status, v.strict, v.lenient, v.extracted, v.rule, v.detail) for v in verdicts]


@given(st.permutations(TEXTS))
def test_permuting_a_batch_permutes_its_verdicts(texts):
    """A verdict depends on its own item only."""
    with open_verifier(VerifyParams()) as verifier:
        assert verifier.judge([]) == []
        alone = [verifier.judge([Item(gold=GOLD, text=text)])[0] for text in texts]
        together = verifier.judge([Item(gold=GOLD, text=text) for text in texts])
    assert _outcomes(together) == _outcomes(alone)
    assert all(verdict.seconds > 0 for verdict in together if verdict.status is Status.CORRECT)


def test_a_gold_that_breaks_a_verifier_scores_nothing():
    """A bug of the verifier at one item is a verifier_error of that item, never a 0 or an exception."""
    broken = CountdownGold(numbers=None, target=24)
    items = [Item(gold=gold, text="3+5=8\n8*3=24") for gold in (GOLD, broken, GOLD)]
    with open_verifier(VerifyParams()) as verifier:
        first, second, third = verifier.judge(items)
    assert (second.status, second.strict, second.lenient) == (Status.VERIFIER_ERROR, None, None)
    assert first.status is third.status is Status.CORRECT


def test_kinds_may_be_mixed():
    """All kinds in one batch: each goes to its verifier, the order stays."""
    doubled = CodeGold(entry_point="f", tests="assert f(2) == 4\nassert f(3) == 6")
    items = [
        Item(gold=doubled, text="```python\ndef f(x):\n    return 2 * x\n```"),
        Item(gold=MathGold(answer="x^2-1"), text="\\boxed{(x-1)(x+1)}"),
        Item(gold=GOLD, text="3+5=8\n8*3=24"),
        Item(gold=doubled, text="```python\ndef f(x):\n    return x + 2\n```"),
        Item(gold=MathGold(answer="5"), text=None),
        Item(gold=MathGold(answer="5"), text="\\boxed{6}"),
        Item(gold=ArcGold(output=((1, 2),)), text="```\n1 2\n```"),
        Item(gold=ArcGold(output=((1, 2),)), text="```\n1\n2\n```"),
    ]
    with open_verifier(VerifyParams(), workers=2) as verifier:
        statuses = [verdict.status for verdict in verifier.judge(items)]
    right, wrong = Status.CORRECT, Status.WRONG
    assert statuses == [right, right, right, wrong, Status.MALFORMED, wrong, right, wrong]


def test_nothing_is_started_that_is_not_needed():
    """Countdown and ARC need no process, so a verifier that saw nothing else has opened none."""
    before = psutil.Process().children()
    with open_verifier(VerifyParams()) as verifier:
        verifier.judge([Item(gold=GOLD, text="3+5=8\n8*3=24")])
        verifier.judge([Item(gold=ArcGold(output=((1,),)), text="1")])
        assert psutil.Process().children() == before
