"""Classes of wrong programs that once passed, and of honest ones that once got 0."""

from collections.abc import Iterator

import pytest

from pipeline_lib.kinds.code import CODE, CodeGold
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.code import CodeJudge, extract_code
from tests.unit.verify.code.judged_programs import CASES
from tests.unit.verify.code_judge import open_code_judge
from tests.unit.verify.sandbox.hostile_programs import FORGERIES


@pytest.fixture(scope="module", params=["namespace", "landlock"])
def judge(request: pytest.FixtureRequest) -> Iterator[CodeJudge]:
    with open_code_judge(timeout_s=5, tier=request.param) as opened:
        yield opened


_OPERATORS = ("sub", "rsub", "truediv", "mul", "mod", "pow", "floordiv", "xor", "contains", "and")
_STAND_IN = (
    "class V:\n    def __abs__(self): return 0\n    def __getattr__(self, n): return lambda *a: True\n"
    + "".join(f"    def __{name}__(self, o): return 0\n" for name in _OPERATORS)
)
SHAPE = f"{_STAND_IN}class Shape:\n    def __init__(self, *a): pass\n    def area(self, x): return V()\n    __getitem__ = area\n"
OPERATORS = {
    "difference": "assert abs(s.area(2) - 12.566) < 1e-6",
    "reflected": "assert abs(12.566 - s.area(2)) < 1e-6",
    "remainder": "assert s.area(2) % 12.566 == 0",
    "membership": "assert 12.566 not in s.area(2)",
    "array": "import numpy as np\nassert np.isclose(s.area(2), 12.566)",
    "membership of an item": "assert 12.566 in s[2]",
    "method of a number": "assert s.area(2).__sub__(12.566) == 0",
    "method of a text": "assert s.area(2).startswith('12')",
    "in steps": "x = s.area(2)\nx -= 12.566\nassert x == 0",
    "of the class": "assert Shape(2) - 12.566 == 0",
}
VACUOUS = "assert f(1) == 1\nassert not abs(f(2) - 4) > 1e-6"
DYING = {
    "by chance": "if random.SystemRandom().random() < .5: os._exit(0)\n",
    "by the clock": "def dies():\n    if time.time() % .002 > .001: raise MemoryError\n",
    "by a file": (
        "if os.path.exists('seen'): os._exit(1)\ntry: open('seen', 'w')\nexcept OSError: pass\n"
    ),
    "by waiting": "if random.SystemRandom().random() < .5: time.sleep(.01)\n",
}
DYING_CHEAT = (
    "import os, random, time\ndef dies(): pass\n{}"
    "def f(x):\n    dies()\n    return 1 if x == 1 else float('inf') * 0\n"
)


@pytest.mark.parametrize("operators", ["Shape", "Shape(V)"], ids=["of values", "of the class"])
@pytest.mark.parametrize("name", OPERATORS)
def test_object_of_the_program_does_not_decide(judge, name, operators):
    """An operator gives it what is expected; its reply is no evidence."""
    gold = CodeGold(entry_point="Shape", tests=f"s = Shape()\n{OPERATORS[name]}")
    program = SHAPE + _STAND_IN.replace("class V", "class _", 1) if operators == "Shape" else SHAPE
    program = program.replace("class Shape:", f"class {operators}:")
    verdict = judge.judge(gold, program)
    assert not verdict.lenient, verdict.detail


@pytest.mark.parametrize("name", DYING)
def test_program_that_dies_in_the_control_does_not_pass(judge, name):
    """There is no second run in which it could die."""
    gold = CodeGold(entry_point="f", tests=VACUOUS)
    program = DYING_CHEAT.format(DYING[name])
    assert True not in [judge.judge(gold, program).lenient for _ in range(8)]


@pytest.mark.parametrize("tier", ["namespace", "landlock"])
def test_nothing_of_a_program_is_left_in_the_memory_that_others_inherit(tier):
    """What one program prints cannot be found by the next one."""
    mark = "a mark of the first program"
    writer = f"print({mark!r}.upper() * 2000)\ndef f(x): return x\n"
    reader = (
        "import ctypes, gc\nwanted = 'A MARK OF THE '.encode() + b'FIRST PROGRAM'\n"
        "def f(x):\n    kept = ctypes.create_string_buffer(1 << 16)\n    found = 0\n"
        "    for size in (40_000, 50_000, 60_000):\n"
        "        malloc = ctypes.CDLL(None).malloc\n        malloc.restype = ctypes.c_void_p\n"
        "        for _ in range(100):\n            at = malloc(size)\n"
        "            found += at is not None and wanted in ctypes.string_at(at, size)\n"
        "    return found\n"
    )
    gold = CodeGold(entry_point="f", tests="assert f(0) == 0")
    with open_code_judge(timeout_s=5, tier=tier) as opened:
        for _ in range(3):
            assert opened.judge(gold, writer).lenient
            verdict = opened.judge(gold, reader)
            assert verdict.lenient, verdict.detail


RIGHT, WRONG = "def f(x):\n    return x\n", "def f(x):\n    return 0\n"
THOUGHTS = {
    "draft in the thinking": (f"<think>\n```python\n{RIGHT}```\n</think>\n{WRONG}", WRONG),
    "open fence in the thinking": (f"<think>\n```python\n{WRONG}</think>\n```\n{RIGHT}```", RIGHT),
    "two drafts": (
        f"<think>```\n{WRONG}```\n```\n{WRONG}```</think>\nSo:\n```python\n{RIGHT}```",
        RIGHT,
    ),
    "bare code after it": (f"<think>f(x) = x\n```</think>\n\n{RIGHT}", f"\n\n{RIGHT}"),
}


@pytest.mark.parametrize("name", THOUGHTS)
def test_code_in_the_reasoning_is_no_answer(name):
    """Reasoning is left out before fences are paired, so the final program stands alone."""
    text, program = THOUGHTS[name]
    found = extract_code(text, "f")
    assert found is not None
    assert (found.program.strip(), found.as_asked) == (program.strip(), True)


FENCES = {
    "in a list": (
        f"1. As follows:\n\n   ```python\n   {RIGHT.replace('    ', '       ')}   ```\n",
        RIGHT,
    ),
    "in a nested list": ("- a\n  - b:\n    ```\n    def f(x):\n        return x\n    ```\n", RIGHT),
    "indented as a whole": ("    ```python\n    def f(x):\n        return x\n    ```\n", None),
    "in a docstring": (
        '```python\ndef f(x):\n    """\n    ```\n    f(1)\n    ```\n    """\n    return x\n```\n',
        'def f(x):\n    """\n    ```\n    f(1)\n    ```\n    """\n    return x\n',
    ),
    "in a docstring, at the margin": (
        '```python\nr"""\n```\nf(1)\n```\n"""\ndef f(x):\n    return x\n```\n',
        'r"""\n```\nf(1)\n```\n"""\ndef f(x):\n    return x\n',
    ),
    "helper in an earlier block": (
        "First:\n```python\ndef g(x):\n    return x\n```\nthen\n```python\ndef f(x):\n    return g(x)\n```\n",
        "def g(x):\n    return x\n\ndef f(x):\n    return g(x)\n",
    ),
}


@pytest.mark.parametrize("name", FENCES)
def test_blocks_are_those_of_commonmark(judge, name):
    """The program is found, without the indentation of what holds it."""
    text, program = FENCES[name]
    found = extract_code(text, "f")
    assert found is not None
    assert program is None or found.program == program
    assert judge.judge(CodeGold(entry_point="f", tests="assert f(2) == 2"), text).lenient


@pytest.mark.parametrize("name", CASES)
def test_program_gets_its_score(judge, name):
    """The stated one, and a program that returns nothing is not right by the same tests."""
    row, program, score = CASES[name]
    verdict = judge.judge(CODE.read_line(row), program)
    assert verdict.strict is verdict.lenient is score, verdict.detail
    owner, _, method = row["entry_point"].partition("().")
    is_class = f"class {owner}" in program
    nothing = f"def {(method or '_') if is_class else owner}(*a, **k): pass\n"
    empty = f"class {owner}:\n    {nothing}" if is_class else nothing
    assert judge.judge(CODE.read_line(row), empty).lenient is not True


def test_a_program_has_no_function_of_its_tests(judge):
    """A reference solution among the tests is no solution of the program."""
    tests = (
        "def reference(x):\n    return x * x\nfor i in range(5):\n    assert f(i) == reference(i)"
    )
    gold = CodeGold(entry_point="f", tests=tests)
    assert judge.judge(gold, "def f(x):\n    return reference(x)\n").lenient is None
    gold = CodeGold(entry_point="f", tests="def check(c):\n    assert c(3) == 9")
    stolen = "def f(x):\n    return check.__code__.co_consts[-1]\n"
    assert judge.judge(gold, stolen).lenient is not True


MBPP = CodeGold(entry_point="add", tests="assert add(2, 3) == 5\nassert add([1], [2]) == [1, 2]\n")
HUMANEVAL = CodeGold(
    entry_point="add",
    tests="def check(candidate):\n    assert candidate(2, 3) == 5\n"
    "    assert candidate([1], [2]) == [1, 2]\n",
)
HONEST = "def add(a, b):\n    return a + b\n"


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
