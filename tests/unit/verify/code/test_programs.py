"""Programs that read standard input: how they are run, and how their output is compared."""

from collections.abc import Iterator

import pytest

from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.kinds.program import PROGRAM, ProgramGold, agrees
from pipeline_lib.kinds.table import KINDS
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.code import CodeJudge, ProgramJudge
from pipeline_lib.verify.sandbox.tiers import Sandbox
from tests.unit.verify.code_judge import open_code_judge

GOLD = ProgramGold(tests=(("2\n1 2\n", "3\n"), ("3\n1 2 3\n", "6\n")))


@pytest.fixture(scope="module", params=["namespace", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with open_code_judge(timeout_s=2, tier=request.param) as judge:
        yield judge._sandbox


STYLES = {
    "input": "n = int(input())\nprint(sum(map(int, input().split())))",
    "main": (
        "import sys\ndef main():\n    data = sys.stdin.read().split()\n"
        "    print(sum(map(int, data[1:])))\nif __name__ == '__main__':\n    main()"
    ),
    "lines": "import sys\nlines = list(sys.stdin)\nsys.stdout.write(str(sum(map(int, lines[1].split()))))",
    "bytes": "import sys\ninput = sys.stdin.buffer.readline\ninput()\nprint(sum(map(int, input().split())))",
    "descriptor": "_, *x = open(0).read().split()\nprint(sum(map(int, x)))",
    "system call": "import os\n_, *x = os.read(0, 1 << 16).split()\nprint(sum(map(int, x)))",
    "exit": "import sys\ninput()\nprint(sum(map(int, input().split())))\nsys.exit()",
    "quick exit": "import os\ninput()\nprint(sum(map(int, input().split())), flush=True)\nos._exit(0)",
    "thread": (
        "import sys, threading\ndef main():\n    input()\n    print(sum(map(int, input().split())))\n"
        "sys.setrecursionlimit(10**6)\nt = threading.Thread(target=main)\nt.start()\nt.join()"
    ),
    "at exit": (
        "import atexit, io, os, sys\nsys.stdout = io.StringIO()\n"
        "atexit.register(lambda: os.write(1, sys.stdout.getvalue().encode()))\n"
        "input()\nprint(sum(map(int, input().split())))"
    ),
    "numpy": "import numpy as np\ninput()\nprint(np.array(input().split(), int).sum())",
}
FAILURES = {
    "second test": ("input()\nprint(3)", Status.WRONG),
    "nothing": ("pass", Status.WRONG),
    "more": ("input()\nprint(sum(map(int, input().split())), 0)", Status.WRONG),
    "raises": ("print(3)\n1 / 0", Status.CRASHED),
    "exit code": ("import sys\nprint(3)\nsys.exit(1)", Status.CRASHED),
    "end of input": ("[input() for _ in range(9)]", Status.CRASHED),
    "loops": ("while True: pass", Status.TIMEOUT),
    "syntax": ("print(", Status.MALFORMED),
    "floods": ("while True: print('x' * 9999)", Status.OUTPUT_LIMIT),
}


@pytest.mark.parametrize("name", STYLES)
def test_program_reads_and_writes_as_a_process(sandbox, name):
    """However it reads its input and ends: right, and wrong if another sum is expected."""
    judge = ProgramJudge(sandbox)
    verdict = judge.judge(GOLD, f"```python\n{STYLES[name]}\n```")
    assert (verdict.status, verdict.strict) == (Status.CORRECT, True), verdict.detail
    other = ProgramGold(tests=(*GOLD.tests[:1], (GOLD.tests[1][0], "7")))
    assert judge.judge(other, STYLES[name]).status is Status.WRONG


@pytest.mark.parametrize("name", FAILURES)
def test_failure_has_its_status(sandbox, name):
    """One test that fails decides."""
    program, status = FAILURES[name]
    verdict = ProgramJudge(sandbox).judge(GOLD, program)
    assert verdict.status is status, verdict.detail
    assert not verdict.lenient


def test_time_limit_is_for_each_test(sandbox):
    """Three tests of 0.9 of 2 CPU seconds pass."""
    program = "import time\nwhile time.process_time() < .9: pass\nprint(input())"
    gold = ProgramGold(tests=tuple((f"{n}\n", f"{n}\n") for n in range(3)))
    assert ProgramJudge(sandbox).judge(gold, program).lenient in (True, None)


def test_program_knows_no_expected_output(sandbox):
    """Nothing but the input of one test is there to be read."""
    program = (
        "import gc\nseen = [o for o in gc.get_objects() if isinstance(o, (list, tuple, dict))]\n"
        "texts = [v for o in seen for v in (o.values() if isinstance(o, dict) else o)]\n"
        "print(*[v for v in texts if isinstance(v, str) and v == 'a sec' + 'ret'][:1])"
    )
    gold = ProgramGold(tests=(("1\n", "a secret\n"),))
    verdict = ProgramJudge(sandbox).judge(
        gold, program.replace("'a sec' + 'ret'", "'a sec' + str('ret')")
    )
    assert verdict.status is Status.WRONG, verdict.detail


def test_block_that_reads_its_input_is_the_program(sandbox):
    """An example of a run in a later block is not."""
    text = f"```python\n{STYLES['input']}\n```\nFor example:\n```\n2\n1 2\n```\n"
    verdict = ProgramJudge(sandbox).judge(GOLD, text)
    assert (verdict.lenient, verdict.strict) == (True, False)


@pytest.mark.parametrize(
    ("checker", "wanted", "printed", "right"),
    [
        ("tokens", "1 2\n3", "1\n2 3 ", True),
        ("tokens", "1 2", "1 2 3", False),
        ("tokens", "1.0", "1", False),
        ("exact", "1 2\n3\n", "1 2 \n3", True),
        ("exact", "1 2\n3\n", "1\n2 3", False),
        ("exact", " a", "a", False),
        ({"tolerance": 1e-6}, "1.0 yes", "1.0000001 yes", True),
        ({"tolerance": 1e-6}, "1.0", "1.001", False),
        ({"tolerance": 1e-6}, "1e9", "1000000100", True),
        ({"tolerance": 1e-6}, "1.0", "nan", False),
        ({"tolerance": 1e-6}, "inf", "1", False),
        ({"tolerance": 1e-6}, "yes", "no", False),
    ],
)
def test_checker_compares(checker, wanted, printed, right):
    """By lines, by tokens, or by numbers within a tolerance."""
    tests = [{"input": "", "output": wanted}]
    gold = PROGRAM.read_line({"tests": tests, "checker": checker})
    assert agrees(gold, wanted, printed) is right


COMPLETED = {
    "body": "    return x + shift(1)\n",
    "whole": "def f(x):\n    return x + 1\n",
    "fenced": "```python\ndef f(x: List[int]):\n    return x + 1\n```",
    "fenced body": "```python\n    return x + shift(1)\n```",
}


@pytest.mark.parametrize("name", COMPLETED)
def test_prompt_precedes_a_completion(sandbox, name):
    """A line with the prompt is judged as published: its helpers are the tests' and the program's."""
    prompt = "from typing import List\n\ndef shift(x):\n    return x\n\ndef f(x):\n    'Add one.'\n"
    row = {
        "entry_point": "f",
        "prompt": prompt,
        "test": "def check(c):\n    assert c(1) == shift(2)",
    }
    gold = KINDS["code"].read_line(row)
    assert isinstance(gold, CodeGold)
    assert KINDS["code"].read_line(KINDS["code"].write_line(gold)) == gold
    verdict = CodeJudge(sandbox).judge(gold, COMPLETED[name])
    assert verdict.lenient, verdict.detail
