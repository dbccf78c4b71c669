"""Code verdicts: extraction of the code, statuses, and scores."""

import json
import pathlib
from collections.abc import Iterator

import pytest

from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.problems.data_set import RawRow
from pipeline_lib.problems.row_parsers import humaneval_problem, mbpp_problem
from pipeline_lib.records import Problem
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verify.code import CodeJudge, ExtractedCode, extract_code
from pipeline_lib.verify.sandbox.client import RunReport, TestSuite
from tests.synthetic_data import FORGERY_OF_HUMANEVAL_1, HUMANEVAL
from tests.unit.verify.code_judge import open_code_judge

SQUARE = "def square(x):\n    return x * x\n"
GOLD = CodeGold(entry_point="square", tests="assert square(3) == 9\nassert square(-1) == 1")
SAMPLE_STRIDE = 20


@pytest.fixture(scope="module")
def judge() -> Iterator[CodeJudge]:
    with open_code_judge(timeout_s=20) as opened:
        yield opened


def fenced(code: str, language: str = "python") -> str:
    return f"```{language}\n{code}```"


ROOT = "def square_root(x):\n    return x\n"
FOUND = [
    (fenced(SQUARE), "only_block"),
    (f"I think.\n\n{fenced(SQUARE)}\n\nDone.", "only_block"),
    (fenced(SQUARE, ""), "only_block"),
    (fenced(SQUARE, "py"), "only_block"),
    (f"~~~python\n{SQUARE}~~~", "only_block"),
    (f"````python\n{SQUARE}````", "only_block"),
    ("\ufeff" + fenced(SQUARE).replace("\n", "\r\n"), "only_block"),
    (SQUARE, "bare"),
    ("\ufeff" + SQUARE.replace("\n", "\r\n"), "bare"),
    (f"```python\n{SQUARE}", "open_block"),
    (f"{SQUARE}```\n", "open_block"),
    (fenced("x = 1\n") + "\n" + fenced(SQUARE), "last_block"),
    (fenced("def square(x): return 0\n") + "\n" + fenced(SQUARE), "last_block"),
    (fenced(SQUARE) + "\nFor example:\n" + fenced("print(square(2))\n"), "last_block"),
    (fenced(SQUARE) + "\nAnd then:\n```python\nprint(", "last_block"),
    # ``square_root`` does not define ``square``.
    (f"{fenced(SQUARE)}\n{fenced(ROOT)}", "last_block"),
]


@pytest.mark.parametrize(("text", "rule"), FOUND)
def test_the_program_is_found(text, rule):
    """The last block that defines the function, cleaned of byte-order mark and CRLF."""
    assert extract_code(text, "square") == ExtractedCode(program=SQUARE, rule=rule)


def test_without_a_definition_the_last_block_counts():
    """A text whose blocks all miss the function is judged by the last one, and found wanting."""
    text = fenced("a = 1\n") + "\n" + fenced("b = 2\n")
    assert extract_code(text, "square") == ExtractedCode(program="b = 2\n", rule="last_block")


@pytest.mark.parametrize("text", ["", "  \n\t", "\ufeff", "\r\n"])
def test_white_space_holds_no_code(text):
    """There is nothing to run, and that is the model's failure."""
    assert extract_code(text, "square") is None


@pytest.mark.parametrize(
    ("text", "status", "strict", "lenient"),
    [
        (fenced(SQUARE), Status.CORRECT, True, True),
        (SQUARE, Status.CORRECT, True, True),
        (f"```python\n{SQUARE}", Status.CORRECT, False, True),
        (fenced("x = 1\n") + "\n" + fenced(SQUARE), Status.CORRECT, False, True),
        (fenced(SQUARE.replace("*", "+")), Status.WRONG, False, False),
        (fenced("def square(x):\n    raise KeyError(x)\n"), Status.CRASHED, False, False),
        (fenced("1 / 0\n"), Status.CRASHED, False, False),
        (fenced("import no_such_module\n"), Status.CRASHED, False, False),
        (fenced("def square(x:\n"), Status.MALFORMED, False, False),
        (fenced("def other(x):\n    return x\n"), Status.MALFORMED, False, False),
        (fenced("square = 3\n"), Status.MALFORMED, False, False),
        ("I cannot do that.", Status.MALFORMED, False, False),
        ("", Status.MALFORMED, False, False),
        ("x" * (1 << 21), Status.MALFORMED, False, False),
        (fenced("s = '\ud800'\n" + SQUARE), Status.MALFORMED, False, False),
        (fenced(SQUARE + "\0"), Status.MALFORMED, False, False),
    ],
)
def test_status_and_scores(judge, text, status, strict, lenient):
    """``lenient`` is the code's verdict; ``strict`` also wants one closed block, or code alone."""
    verdict = judge.judge(GOLD, text)
    assert (verdict.status, verdict.strict, verdict.lenient) == (status, strict, lenient), verdict


@pytest.mark.parametrize(
    ("tests", "program"),
    [
        ("d = {'a': [1]}\nf(d)\nassert d == {'a': [1, 2]}", "def f(d):\n    d['a'].append(2)\n"),
        ("s = {1}\nf(s)\nassert s == {1, 2}", "def f(s):\n    s.add(2)\n"),
        # Modules that tests use without importing are the tests' own.
        ("assert f(2) == math.sqrt(4)", "math = None\n\ndef f(x):\n    return float(x)\n"),
        ("assert f(a=1, b=2) == (1, 2)", "def f(*, a, b):\n    return a, b\n"),
        (
            "assert f([1, int, 'a'], int) == [1]",
            "def f(v, t):\n    return [x for x in v if type(x) is t]\n",
        ),
        ("assert f(complex(1, 2)) == 1", "def f(z):\n    return int(z.real)\n"),
        ("assert f(10**5000) == 10**5000 + 1", "def f(n):\n    return n + 1\n"),
        ("assert f('\\ud800') == 1", "def f(s):\n    return len(s)\n"),
        (
            "from math import pi\nassert abs(f() - pi) < 1e-9",
            "import math\n\ndef f():\n    return math.pi\n",
        ),
    ],
)
def test_what_tests_may_do(judge, tests, program):
    """Tests that use more than a call and a comparison work across the two processes."""
    verdict = judge.judge(CodeGold(entry_point="f", tests=tests), program)
    assert verdict.status is Status.CORRECT, verdict.detail


def test_function_of_the_tests_is_not_replaced_by_the_candidates(judge):
    """A function that tests define is not replaced by one of the same name in the program."""
    gold = CodeGold(
        entry_point="f", tests="def twice(x):\n    return 2 * x\nassert f(2) == twice(2)"
    )
    forgery = "def twice(x):\n    return 0\ndef f(x):\n    return twice(x)\n"
    assert judge.judge(gold, forgery).status is Status.WRONG


def test_builtins_of_the_tests_are_not_replaced_by_the_candidates(judge):
    """Tests use their own builtins: a program's ``len`` and ``sorted`` have no effect."""
    tests = "assert len(f(3)) == 3\nassert sorted(f(2)) == [1, 2]"
    forgery = (
        "def len(x):\n    return 3\ndef sorted(x):\n    return [1, 2]\ndef f(n):\n    return []\n"
    )
    gold = CodeGold(entry_point="f", tests=tests)
    assert judge.judge(gold, forgery).status is Status.WRONG
    honest = "def f(n):\n    return [*range(n, 0, -1)]\n"
    assert judge.judge(gold, honest).status is Status.CORRECT


@pytest.mark.parametrize(
    "tests",
    ["assert f(1) ==", "import no_such_module\nassert f(1) == 1", "assert 1 == 1", "", "f(1)"],
)
def test_tests_that_cannot_decide_are_our_failure(judge, tests):
    """Broken tests, tests without a call, and tests without an assert score nothing."""
    verdict = judge.judge(CodeGold(entry_point="f", tests=tests), "def f(x):\n    return x\n")
    assert (verdict.status, verdict.strict, verdict.lenient) == (Status.VERIFIER_ERROR, None, None)


def test_argument_that_cannot_cross_is_our_failure(judge):
    """A test that passes an open stream as an argument cannot be run: no score."""
    gold = CodeGold(entry_point="f", tests="import io\nassert f([io]) == 1")
    verdict = judge.judge(gold, "def f(g):\n    return 1\n")
    assert (verdict.status, verdict.lenient) == (Status.VERIFIER_ERROR, None)


def test_program_is_not_main(judge):
    """Code under ``if __name__ == "__main__"`` does not run, so it may ask for input."""
    program = SQUARE + "\nif __name__ == '__main__':\n    print(square(int(input())))\n"
    assert judge.judge(GOLD, program).status is Status.CORRECT


def test_hash_order_is_the_same_in_every_jail():
    """The order of a set of strings does not change between two sandboxes."""
    orders = []
    program = "def f():\n    return list({'a', 'b', 'c', 'd', 'e', 'f', 'g'})\n"
    for _ in range(2):
        with open_code_judge() as opened:
            verdicts = [
                opened.judge(CodeGold(entry_point="f", tests=f"assert f()[0] == {c!r}"), program)
                for c in "abcdefg"
            ]
        orders.append([verdict.status for verdict in verdicts])
    assert orders[0] == orders[1]
    assert orders[0].count(Status.CORRECT) == 1


class ScriptedSandbox:
    """Answers with given statuses in turn, and keeps what it was asked."""

    def __init__(self, *statuses: Status) -> None:
        self.statuses = list(statuses)
        self.asked: list[TestSuite] = []

    def run(self, program: str, suite: TestSuite) -> RunReport:  # noqa: ARG002 - the protocol's
        self.asked.append(suite)
        return RunReport(status=self.statuses.pop(0), detail="said so", output="", seconds=0.5)

    def close(self) -> None:
        self.statuses.clear()


@pytest.mark.parametrize(
    ("status", "score"),
    [
        (Status.CORRECT, True),
        (Status.REWARD_HACK, False),
        (Status.WRONG, False),
        (Status.TIMEOUT, False),
        (Status.MEMORY, False),
        (Status.OUTPUT_LIMIT, False),
        (Status.VERIFIER_ERROR, None),
    ],
)
def test_program_is_run_once(status, score):
    """The negative control replays that run, so no program can know of it."""
    sandbox = ScriptedSandbox(status)
    verdict = CodeJudge(sandbox).judge(GOLD, SQUARE)
    assert (verdict.status, verdict.strict, verdict.lenient) == (status, score, score)
    assert len(sandbox.asked) == 1
    assert verdict.seconds == 0.5


def problems(folder: pathlib.Path) -> list[Problem]:
    humaneval = folder / "humaneval" / "HumanEval.jsonl"
    mbpp = folder / "mbpp" / "mbpp.jsonl"
    found = []
    for path, make in ((humaneval, humaneval_problem), (mbpp, mbpp_problem)):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            row = RawRow(fields=json.loads(line), where=f"{path.name}:{number}", index=number)
            found.append(make(row, id_prefix="", source=path.stem))
    return found


def not_correct(judge: CodeJudge, chosen: list[Problem]) -> dict[str, Verdict]:
    verdicts = {}
    for problem in chosen:
        assert isinstance(problem.gold, CodeGold)
        assert problem.solution is not None
        verdicts[problem.id] = judge.judge(problem.gold, problem.solution)
    return {name: v for name, v in verdicts.items() if v.status is not Status.CORRECT}


@pytest.mark.parametrize(
    ("number", "forgery"),
    [
        (32, "def poly(xs, x): return 0\ndef find_zero(xs): return 0\n"),
        (38, "def encode_cyclic(s): return s\ndef decode_cyclic(s): return s\n"),
        (50, "def encode_shift(s): return s\ndef decode_shift(s): return s\n"),
    ],
)
def test_functions_that_a_prompt_gives_cannot_be_replaced(judge, reference_data, number, forgery):
    """Three of HumanEval's tests call a function of the prompt: the prompt's counts, not a copy."""
    problem = problems(reference_data)[number]
    assert isinstance(problem.gold, CodeGold)
    assert judge.judge(problem.gold, forgery).status is Status.WRONG


def test_a_function_that_a_prompt_gives_cannot_be_replaced(judge, synthetic_data):
    """A forgery is wrong, as for any problem; without the prompt's function nothing can be judged."""
    [problem] = [one for one in problems(synthetic_data) if one.id == "HumanEval/1"]
    own = CodeGold(entry_point="shifted_back", tests=HUMANEVAL[1]["test"])
    assert "shifted" in problem.gold.tests.partition("def check")[0]
    assert judge.judge(problem.gold, FORGERY_OF_HUMANEVAL_1).status is Status.WRONG
    assert judge.judge(problem.gold, problem.solution).status is Status.CORRECT
    assert judge.judge(own, FORGERY_OF_HUMANEVAL_1).strict is None


def test_canonical_solutions_of_our_own_pass(judge, synthetic_data):
    """All seven reference solutions pass their tests: Windows lines, set-up code, a builtin's name."""
    chosen = problems(synthetic_data)
    assert len(chosen) == 7
    assert not_correct(judge, chosen) == {}


def test_sample_of_canonical_solutions_passes(judge, reference_data):
    """Every 20th reference solution passes its tests, and fails them with one value altered."""
    assert not_correct(judge, problems(reference_data)[::SAMPLE_STRIDE]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["namespace", "landlock"])
def test_all_canonical_solutions_pass(reference_data, tier):
    """All 164 of HumanEval and 974 of MBPP are correct, hence none is a reward hack; none is excepted."""
    chosen = problems(reference_data)
    assert len(chosen) == 164 + 974
    with open_code_judge(timeout_s=30, tier=tier) as opened:
        assert not_correct(opened, chosen) == {}
