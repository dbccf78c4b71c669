"""The same verdicts wherever they are asked for: main thread, thread, event loop, Ray worker.

Math by SymPy, and code in a jail: both have processes, deadlines and locks that could depend on it.
"""

import asyncio
import pathlib
import threading

import pytest

from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import CodeLimits, MathLimits, VerifyParams
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.dispatch import Item, open_verifier
from tests.unit.verify.code_judge import open_code_judge

REPOSITORY = pathlib.Path(__file__).parents[3]
PARAMS = VerifyParams(
    math=MathLimits(soft_timeout_s=0.4, hard_timeout_s=30.0), code=CodeLimits(timeout_s=1.0)
)
DOUBLED = CodeGold(entry_point="f", tests="assert f(2) == 4\nassert f(3) == 6")
FORGED = "class Any(int):\n    __eq__ = lambda *_: True\n\ndef f(x):\n    return Any()\n"
CASES = {
    "equal by meaning": (MathGold(answer="x^2-1"), "\\boxed{(x-1)(x+1)}", Status.CORRECT),
    "different": (MathGold(answer="x^2-1"), "\\boxed{x^2+1}", Status.WRONG),
    "no answer": (MathGold(answer="5"), "I do not know.", Status.UNPARSED),
    "too slow": (
        MathGold(answer="5"),
        "\\boxed{\\int_0^1 (x+y+z+w+a+b+c)^{60} dx}",
        Status.TIMEOUT,
    ),
    "bad gold": (MathGold(answer="\\frac{"), "\\boxed{x}", Status.VERIFIER_ERROR),
    "right": (DOUBLED, "```python\ndef f(x):\n    return 2 * x\n```", Status.CORRECT),
    "wrong": (DOUBLED, "def f(x):\n    return x + 2\n", Status.WRONG),
    "forged": (DOUBLED, FORGED, Status.WRONG),
    "sleeps": (DOUBLED, "import time\ndef f(x):\n    time.sleep(600)\n", Status.TIMEOUT),
    "no program": (DOUBLED, "", Status.MALFORMED),
}
EXPECTED = [status for _, _, status in CASES.values()]


@pytest.fixture(scope="module", autouse=True)
def sandbox():
    with open_code_judge():
        yield


def judged():
    """Statuses and scores of all cases, by a verifier that is opened, used and closed here."""
    with open_verifier(PARAMS) as verifier:
        verdicts = verifier.judge([Item(gold=gold, text=text) for gold, text, _ in CASES.values()])
    return [(v.status, v.strict, v.lenient, v.extracted, v.rule, v.detail) for v in verdicts]


@pytest.fixture(scope="module")
def in_main_thread(sandbox):
    """The reference for the other contexts."""
    assert threading.current_thread() is threading.main_thread()
    return judged()


def test_main_thread(in_main_thread):
    """Each case gets the status that it was made for, and only our failures score nothing."""
    assert [status for status, *_ in in_main_thread] == EXPECTED
    unscored = {
        name for name, (_, strict, *_) in zip(CASES, in_main_thread, strict=True) if strict is None
    }
    assert unscored == {"too slow", "bad gold", "sleeps"}


def test_threads(in_main_thread):
    """Two threads at once, with a verifier each."""
    found = []
    threads = [threading.Thread(target=lambda: found.append(judged())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [in_main_thread] * 2


def test_event_loop(in_main_thread):
    """In a coroutine itself, while its loop runs, and in a thread that it waits for."""

    async def both():
        return [judged(), await asyncio.to_thread(judged)]

    assert asyncio.run(both()) == [in_main_thread] * 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ray_worker(in_main_thread):
    """A Ray task, which Ray runs in a process of its own and not on its main thread."""
    ray = pytest.importorskip("ray")
    environment = {"env_vars": {"PYTHONPATH": str(REPOSITORY)}}
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    try:
        found = ray.get(ray.remote(judged).remote())
    finally:
        ray.shutdown()
    assert found == in_main_thread
