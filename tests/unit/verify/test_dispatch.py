"""The verifier of mixed batches, verdicts on paths, groups of answers, and verifiers that outlive a batch."""

import os
import pathlib
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.kinds.arc import ARC, ArcGold
from pipeline_lib.kinds.code import CODE
from pipeline_lib.kinds.countdown import COUNTDOWN, CountdownGold
from pipeline_lib.kinds.math import MATH, MathGold
from pipeline_lib.params.paths import MathLimits, VerifyParams
from pipeline_lib.records import FinishReason, Path, Problem, Provenance
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.dispatch import (
    AnswerBook,
    Item,
    close_pooled_verifiers,
    judge_paths,
    open_verifier,
    pooled_verifier,
    verdict_rows,
)
from tests.unit.verify.processes import eventually

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


def test_nothing_is_started_that_is_not_needed():
    """Countdown and ARC need no process, so a verifier that saw nothing else has opened none."""
    before = psutil.Process().children()
    with open_verifier(VerifyParams()) as verifier:
        verifier.judge([Item(gold=GOLD, text="3+5=8\n8*3=24")])
        verifier.judge([Item(gold=ArcGold(output=((1,),)), text="1")])
        assert psutil.Process().children() == before


PROBLEM = Problem(
    id="c", question="?", gold=CountdownGold(numbers=(3, 5, 3), target=24), source="test"
)
PROVENANCE = Provenance(
    model="m", template="t", seed=1, temperature=1.0, top_p=1.0, max_new_tokens=8
)


def path(index, text, *, error=None):
    return Path(
        problem_id="c",
        index=index,
        text=text,
        prompt_tokens=1,
        completion_tokens=1,
        logprob=None,
        finish_reason=FinishReason.ERROR if error else FinishReason.STOP,
        provenance=PROVENANCE,
        error=error,
    )


def test_each_path_has_its_verdict_and_failures_score_nothing():
    """Right, failed, wrong: in this order, with None for the one that our side did not draw."""
    paths = [path(0, "3+5=8\n8*3=24"), path(1, "", error="engine died"), path(2, "3+5=9")]
    with open_verifier(VerifyParams()) as verifier:
        verdicts = judge_paths(paths, [PROBLEM], verifier)
    assert [verdict.strict for verdict in verdicts] == [True, None, False]
    assert [verdict.lenient for verdict in verdicts] == [True, None, False]
    assert verdicts[1].status is Status.VERIFIER_ERROR
    assert "engine died" in verdicts[1].detail
    rows = verdict_rows(paths, verdicts)
    assert [(row["problem_id"], row["index"]) for row in rows] == [("c", 0), ("c", 1), ("c", 2)]


@pytest.fixture(scope="module")
def verifier():
    with open_verifier(VerifyParams()) as opened:
        yield opened


def numbers(kind, texts, verifier):
    book = AnswerBook(kind=kind, verifier=verifier)
    return [book.number(text) for text in texts]


def test_equivalent_mathematics_is_one_answer(verifier):
    """Fractions, decimals and symbols are compared by value, not by spelling."""
    texts = ["\\boxed{1/2}", "The answer is 0.5", "\\boxed{x+1}", "\\boxed{1+x}", "\\boxed{3}"]
    assert numbers(MATH, texts, verifier) == [0, 0, 1, 1, 2]


def test_no_answer_is_none(verifier):
    """It is no answer of its own, for any kind."""
    assert numbers(MATH, ["I do not know."], verifier) == [None]
    assert numbers(COUNTDOWN, ["hello"], verifier) == [None]
    assert numbers(ARC, ["no grid"], verifier) == [None]
    assert numbers(CODE, ["  "], verifier) == [None]


def test_countdown_solutions_are_one_up_to_commuting(verifier):
    """Steps, tags and prose that compute the same from the same are one; a difference is not
    commuted, and another way to the same value is another answer."""
    texts = [
        "3+5=8\n8*3=24",
        "5+3=8\n3*8=24",
        "<answer>(3+5)*3</answer>",
        "so we get 3*(5+3) = 24",
        "3*5=15\n15+9=24",
        "9-4=5",
        "4-9=5",
    ]
    assert numbers(COUNTDOWN, texts, verifier) == [0, 0, 0, 0, 1, 2, 3]


def test_countdown_steps_are_not_checked(verifier):
    """A wrong sum is an answer like any other: to weed it out would be to verify."""
    assert numbers(COUNTDOWN, ["3+5=9", "3+5=8", "5+3=9"], verifier) == [0, 1, 0]


def test_an_expression_that_cannot_be_computed_stands_for_its_spelling(verifier):
    """Division by zero has no steps."""
    texts = ["<answer>3/(2-2)</answer>", "<answer>3 / (2-2)</answer>", "<answer>4/0</answer>"]
    assert numbers(COUNTDOWN, texts, verifier) == [0, 0, 1]


def test_grids_are_one_by_their_cells(verifier):
    """However they are written."""
    texts = ["```\n1 2\n3 4\n```", "[[1,2],[3,4]]", "```\n1 2\n```"]
    assert numbers(ARC, texts, verifier) == [0, 0, 1]


def test_programs_are_never_one(verifier):
    """Spelled alike or not."""
    assert numbers(CODE, ["f = 1", "f = 1"], verifier) == [0, 1]


REPOSITORY = pathlib.Path(__file__).parents[3]
PARAMS = VerifyParams()
OTHER_PARAMS = VerifyParams(math=MathLimits(memory_mb=999))
HARD = Item(gold=MathGold(answer="x^2-1"), text="\\boxed{(x-1)(x+1)}")


@pytest.fixture(autouse=True)
def processes():
    """The verifiers' processes, when it is called; each test starts with none, and leaves none."""
    close_pooled_verifiers()
    others = child_processes()
    yield lambda: [process for process in child_processes() if process not in others]
    close_pooled_verifiers()


def judged(params=PARAMS):
    """Judge one item that needs a process; which verifier did it."""
    with pooled_verifier(params) as verifier:
        assert [verdict.status for verdict in verifier.judge([HARD])] == [Status.CORRECT]
        return verifier


def child_processes():
    return psutil.Process().children(recursive=True)


def test_the_next_user_gets_the_same_one_and_its_processes(processes):
    """Two batches, one verifier, the second one starts nothing, and closing leaves no process."""
    first = judged()
    started = processes()
    assert started
    assert judged() is first
    assert processes() == started
    close_pooled_verifiers()
    assert processes() == []


def test_two_at_once_get_two():
    """A verifier in use is never given to another; later both are found again."""
    with pooled_verifier(PARAMS) as first, pooled_verifier(PARAMS) as second:
        assert first is not second
        with ThreadPoolExecutor(2) as threads:
            found = list(threads.map(lambda verifier: verifier.judge([HARD]), (first, second)))
        assert [verdict.status for (verdict,) in found] == [Status.CORRECT] * 2
    with pooled_verifier(PARAMS) as third, pooled_verifier(PARAMS) as fourth:
        assert {id(third), id(fourth)} == {id(first), id(second)}


def test_other_params_close_it(processes):
    """The limits that a verifier was opened with hold for every batch it judges."""
    first = judged()
    started = processes()
    second = judged(OTHER_PARAMS)
    assert second is not first
    assert not set(started) & set(processes())


def test_one_whose_user_failed_is_not_kept(processes):
    """It may have questions in hand, so it is closed, and the next user gets a new one."""
    used = []

    def fail():
        with pooled_verifier(PARAMS) as verifier:
            used.append(verifier)
            verifier.judge([HARD])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert processes() == []
    assert judged() is not used[0]


def test_a_forked_process_has_none():
    """A child would talk to its parent's processes, and each get the other's replies."""
    first = judged()
    pid = os.fork()
    if pid == 0:
        with pooled_verifier(PARAMS) as found:
            os._exit(found is first)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert judged() is first


_PROCESS = """
import os, sys, psutil
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.verify.dispatch import Item, pooled_verifier
items = [
    Item(gold=MathGold(answer="x^2-1"), text="\\\\boxed{(x-1)(x+1)}"),
    Item(gold=CodeGold(entry_point="f", tests="assert f() == 1"), text="def f(): return 1"),
]
with pooled_verifier(VerifyParams()) as verifier:
    verifier.judge(items)
print(*(child.pid for child in psutil.Process().children(recursive=True)), flush=True)
if sys.argv[1] == "kill":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(("how", "code"), [("end", 0), ("kill", -signal.SIGKILL)])
@pytest.mark.fault("SIGKILL or end of a verifier's process", "cleaned up")
def test_nothing_outlives_the_process(how, code):
    """However it ends, by exit or by a signal: its math processes and its jails are gone with it."""
    done = subprocess.run(
        [sys.executable, "-c", _PROCESS, how],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stderr == ""
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) >= 2
    assert eventually(lambda: not any(map(psutil.pid_exists, pids)))
