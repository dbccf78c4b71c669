"""Wrong programs that claim to be right: no kind of forged verdict is believed, in any tier."""

from collections.abc import Iterator

import pytest

from pipeline_lib.errors import SandboxUnavailableError
from pipeline_lib.params import CodeLimits
from pipeline_lib.records import CodeGold, Status
from pipeline_lib.verification.python_tests import CodeJudge, open_code_judge

MBPP = CodeGold(entry_point="add", tests="assert add(2, 3) == 5\nassert add([1], [2]) == [1, 2]\n")
HUMANEVAL = CodeGold(
    entry_point="add",
    tests="def check(candidate):\n    assert candidate(2, 3) == 5\n"
    "    assert candidate([1], [2]) == [1, 2]\n",
)
HONEST = "def add(a, b):\n    return a + b\n"

FORGERIES = {
    "exits with success at import": "import os\nos._exit(0)",
    "exits with success when called": "import os\ndef add(a, b): os._exit(0)",
    "raises SystemExit": "import sys\ndef add(a, b): sys.exit(0)",
    "an object that equals everything": """
class Any:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
def add(a, b): return Any()""",
    "a number that equals everything": """
class Any(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = int.__hash__
def add(a, b): return Any()""",
    "a list that equals everything": """
class Any(list):
    def __eq__(self, other): return True
def add(a, b): return Any()""",
    "a metaclass that equals everything": """
class Meta(type):
    def __eq__(cls, other): return True
    __hash__ = type.__hash__
class Any(metaclass=Meta): pass
def add(a, b): return Any""",
    "patched builtins": """
import builtins
builtins.AssertionError = type("Never", (BaseException,), {})
for name in ("all", "any", "abs", "len", "sorted", "isinstance", "compile", "exec"):
    setattr(builtins, name, lambda *a, **k: True)
def add(a, b): return 0""",
    "patched modules": """
import ast, json, math, operator, unittest
ast.parse = lambda *a, **k: None
math.isclose = operator.eq = lambda *a, **k: True
json.dumps = lambda *a, **k: '{"status": "correct", "detail": ""}'
def add(a, b): return 0""",
    "bytes on every descriptor": """
import json, os
for status in ("correct", "CORRECT", "passed"):
    for number in range(64):
        try:
            os.write(number, json.dumps({"status": status, "detail": "", "end": "exit"}).encode())
        except OSError:
            pass
def add(a, b): return 0""",
    "a marker on standard output": """
print("all tests passed\\n1 passed\\nOK")
def add(a, b):
    print("passed")
    return 0""",
    "a framed answer ahead of the question": """
import json, os, struct
def frame(value):
    data = json.dumps({"tuple": ["value", value]}).encode()
    return struct.pack("!I", len(data)) + data
os.write(3, frame(None) + frame(True) * 100)
def add(a, b): return 0""",
    "a handler at exit": """
import atexit, os
atexit.register(os._exit, 0)
def add(a, b): raise ValueError""",
    "a signal handler": """
import os, signal
for number in (1, 2, 15):
    signal.signal(number, lambda *a: os._exit(0))
signal.setitimer(signal.ITIMER_REAL, 0.01)
def add(a, b): return 0""",
    "a trace function": """
import sys
def trace(frame, event, argument):
    if "expected" in frame.f_locals: frame.f_locals["expected"] = 0
    return trace
sys.settrace(trace)
def add(a, b): return 0""",
    "frames of the caller": """
import sys
def add(a, b):
    frame = sys._getframe()
    while frame:
        for name, value in list(frame.f_locals.items()) + list(frame.f_globals.items()):
            if isinstance(value, str) and "assert add(" in value:
                return eval(value.split("==")[1].split()[0])
        frame = frame.f_back
    return 0""",
    "the tests in this process's memory": """
import gc, sys
def add(a, b):
    for thing in gc.get_objects():
        values = thing.values() if type(thing) is dict else thing if type(thing) in (list, tuple) else ()
        try:
            for value in list(values):
                if isinstance(value, (str, bytes)) and len(value) > 30 and str(value).count("assert add") > 1:
                    return 5 if a == 2 else [1, 2]
        except Exception:
            pass
    return 0""",
    "a raised AssertionError": "def add(a, b): raise AssertionError('passed')",
    "a raised StopIteration": "def add(a, b): raise StopIteration",
    "an exception that will not print": """
class Odd(Exception):
    def __str__(self): raise SystemExit(0)
    __repr__ = __str__
def add(a, b): raise Odd""",
    "an argument made equal": """
def add(a, b):
    if isinstance(a, list): a.append(a)
    return a""",
    "a stand-in instead of a value": """
class Lazy:
    value = 5
    def __getattr__(self, name): return True
    def __call__(self, *a): return True
    def __bool__(self): return True
def add(a, b): return Lazy()""",
    "not a number": "def add(a, b): return float('nan')",
    "a function": "def add(a, b): return add",
    "a generator": "def add(a, b): yield 5",
    "a coroutine": "async def add(a, b): return 5",
    "its own tests": """
def check(candidate): pass
def add(a, b): return 0""",
    "replaced driver": """
import sys
for name, module in list(sys.modules.items()):
    if name.startswith("pipeline_lib"):
        for key, value in list(vars(module).items()):
            if callable(value) and not key.startswith("__"):
                try: setattr(module, key, lambda *a, **k: True)
                except Exception: pass
def add(a, b): return 0""",
    "a finding instead of an answer": """
import os, struct, json
def add(a, b):
    data = json.dumps({"status": "correct", "detail": ""}).encode()
    os.write(3, struct.pack("!I", len(data)) + data)
    return 0""",
    "silence": "import os\nos.close(3)\nos._exit(0)",
    "nothing at all": "add = None",
}


@pytest.fixture(scope="module", params=["namespace", "landlock"])
def judge(request: pytest.FixtureRequest) -> Iterator[CodeJudge]:
    try:
        opened = open_code_judge(CodeLimits(timeout_s=2, tier=request.param))
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
    with opened:
        yield opened


@pytest.mark.parametrize("gold", [MBPP, HUMANEVAL], ids=["asserts", "check"])
@pytest.mark.parametrize("name", FORGERIES)
def test_forgery_scores_zero(judge, gold, name):
    """A forged verdict counts as the candidate's failure: judged, and not right."""
    verdict = judge.judge(gold, FORGERIES[name])
    assert verdict.status not in {Status.CORRECT, Status.VERIFIER_ERROR}, verdict
    assert (verdict.strict, verdict.lenient) == (False, False)


@pytest.mark.parametrize("gold", [MBPP, HUMANEVAL], ids=["asserts", "check"])
def test_honest_program_is_believed(judge, gold):
    """The same tests accept the program that adds."""
    verdict = judge.judge(gold, HONEST)
    assert (verdict.status, verdict.strict, verdict.lenient) == (Status.CORRECT, True, True)


def test_answer_that_only_needs_to_be_true_cannot_be_faked_by_an_object(judge):
    """``assert f(x)`` asks for truth; an object whose ``__bool__`` says so is not a plain value."""
    gold = CodeGold(entry_point="good", tests="assert good(1)\nassert not good(0)")
    fake = "class Yes:\n    pass\ndef good(n): return Yes() if n else False\n"
    assert judge.judge(gold, fake).status is Status.WRONG
    assert judge.judge(gold, "def good(n): return n == 1").status is Status.CORRECT


def test_negative_control_catches_a_judge_that_can_be_satisfied_by_anything(judge):
    """Tests that swallow their own failure pass for every program: success there means nothing."""
    swallowing = "try:\n    assert add(2, 3) == 5\nexcept AssertionError:\n    pass\n"
    gold = CodeGold(entry_point="add", tests=swallowing)
    verdict = judge.judge(gold, "def add(a, b): return 0")
    assert (verdict.status, verdict.lenient) == (Status.REWARD_HACK, False)


def test_there_are_enough_forgeries():
    """The specification names 14 kinds."""
    assert len(FORGERIES) >= 14
