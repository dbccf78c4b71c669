"""Data sets of reasoning-gym: their rows, their scores, and answers that its scorers would run."""

import ast
import json
import pathlib
import subprocess
from collections import Counter
from types import SimpleNamespace

import pytest

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.kinds.task_sets import GymGold
from pipeline_lib.own.code import packages_of
from pipeline_lib.params.evaluate import EvaluateParams, EvaluationSet
from pipeline_lib.params.paths import CodeLimits, OwnLimits, PrepareParams, VerifyParams
from pipeline_lib.params_file import load_params
from pipeline_lib.problems.loading import full_name
from pipeline_lib.problems.splits import evaluation_problems, make_splits
from pipeline_lib.systems.loop.task_check import check_task
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.dispatch import AnswerBook, Item, open_verifier
from pipeline_lib.verify.gym import find_answers
from pipeline_lib.verify.sandbox.client import JailedInterpreter, Library, TestSuite
from tests.unit.own.tasks_environment import TASKS, needs_tasks

EXPLOITS = {
    "string_insertion": "__import__('os').system('{command}') or ['A']",
    "countdown": "__import__('os').system('{command}')",
}
"""Answers that run a command in the process of the scorer, where nothing holds them."""
MIXTURE = {
    "leg_counting": {"weight": 4, "level": 0},
    "countdown": 1,
    "string_insertion": 1,
    "rearc": 1,
    "puzzle24": {"config": {"max_value": 5}},
    "list_functions": 1,
    "pool_matrix": 1,
    "word_ladder": 1,
}
RAW_SCORER = """
import json, sys
from reasoning_gym.factory import get_score_answer_fn
name, answer = json.load(sys.stdin)
get_score_answer_fn(name)(answer, {"answer": "", "metadata": {"numbers": [], "target": 0}})
print("scored")
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("REASONLOOP_TASKS", str(TASKS))


def prepare(dataset="gym:leg_counting", **fields):
    sizes = {"train_problems": 6, "test_problems": 4, "bootstrap_problems": 2}
    return PrepareParams(dataset=dataset, **{**sizes, **fields})


def splits_of(params, seed=7):
    return make_splits(params, seed=seed, gold_problem=lambda _: None)


def test_the_answers_in_a_text():
    """The tagged one first; an empty one is none, whatever else there is."""
    expected = {
        "<answer> 5 </answer>": {"5": "tag"},
        "a <answer>1</answer>\nb <answer>2\n3</answer>": {"2\n3": "tag"},
        "\\boxed{7}": {"7": "boxed"},
        "The answer is **12**.": {"12": "answer_line"},
        "1 2\n3 4": {"3 4": "last_line", "1 2\n3 4": "whole"},
        "there are 1200 legs": {"1200": "last_number", "there are 1200 legs": "last_line"},
        "<think>so <answer>3</answer>": {"3": "reasoning"},
        "</answer> yes <answer>": {"</answer> yes <answer>": "last_line"},
        "<answer> </answer> 5": {},
        " \n": {},
    }
    for text, rules in expected.items():
        found = find_answers(text)
        assert [*found.items()][: len(rules)] == [*rules.items()], text
        assert bool(found) is bool(rules)


def test_params_of_a_mixture():
    """A number is a weight; names and the data set belong together."""
    params = prepare("gym", gym={"gcd": 2, "leg_counting": {"level": 1}})
    assert full_name(params) == 'gym:{"gcd": 2.0, "leg_counting": {"level": 1}}'
    for wrong in ({"dataset": "gym"}, {"dataset": "countdown", "gym": {"gcd": 1}}):
        with pytest.raises(ValueError, match="a mixture needs dataset=gym and names"):
            PrepareParams(**wrong)
    with pytest.raises(ValueError, match="greater than 0"):
        prepare("gym", gym={"gcd": 0})


def test_a_set_of_an_evaluation_is_no_path():
    """Its results have a folder of its name."""
    with pytest.raises(ValueError, match="results are kept by name"):
        EvaluateParams(sets=(EvaluationSet(dataset="/tmp/task.py"),))


def test_a_set_of_an_evaluation_is_no_task_of_ones_own(tmp_path):
    """The verifier of a run judges the problems of `prepare` alone."""
    file = tmp_path / "mine.py"
    file.write_text("def problems(split, seed): yield {}", "utf-8")
    one = EvaluationSet(dataset=str(file), problems=3)
    with pytest.raises(BadInputError, match="a task of your own; give it as"):
        evaluation_problems(one, seed=7, gold_problem=lambda _: None)


def test_without_the_environment(monkeypatch, tmp_path):
    """One line that says how it is made, for problems and for verdicts."""
    monkeypatch.setenv("REASONLOOP_TASKS", str(tmp_path))
    with pytest.raises(BadInputError, match="`make tasks-env` installs") as raised:
        load_params(overrides=["prepare.dataset=gym:gcd"])
    assert "\n" not in str(raised.value)


@pytest.fixture(scope="module")
def problems():
    """The first problems of some data sets by name; puzzle24 with numbers up to 5."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REASONLOOP_TASKS", str(TASKS))
        patch.setenv("PYTHONHASHSEED", "1")
        return splits_of(prepare("gym", gym=MIXTURE, train_problems=60))


@pytest.fixture(scope="module")
def verifier():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REASONLOOP_TASKS", str(TASKS))
        with open_verifier(VerifyParams(own=OwnLimits(timeout_s=60.0))) as opened:
            yield opened


def of(problems, name):
    return [one for one in problems.train if one.columns["set"].startswith(f"gym:{name}")]


def judged(verifier, pairs):
    return verifier.judge([Item(gold=one.gold, text=text) for one, text in pairs])


@needs_tasks
class TestRows:
    def test_a_mixture(self, problems):
        """Shares by weight; no question twice; level and config reach rows and golds."""
        everything = [*problems.train, *problems.test, *problems.bootstrap]
        assert len({one.question for one in everything}) == len({one.id for one in everything})
        shares = Counter(one.columns["set"].partition("{")[0] for one in problems.train)
        assert shares["gym:leg_counting"] > 2 * shares["gym:countdown"] > 0
        legs, puzzle = of(problems, "leg_counting")[0], of(problems, "puzzle24")[0]
        row = ast.literal_eval(legs.gold.entry)
        assert (row["question"], row["answer"]) == (legs.question, legs.solution)
        assert legs.gold.of == 'gym:leg_counting{"level": 0}'
        assert row["metadata"]["difficulty"]["num_animals"] == (1, 1)
        assert max(ast.literal_eval(puzzle.gold.entry)["metadata"]["numbers"]) <= 5

    def test_equal_rows_in_another_process(self, problems, monkeypatch):
        """Though they draw from global generators or iterate over sets; a smaller split is the beginning."""
        monkeypatch.setenv("PYTHONHASHSEED", "2")
        again = splits_of(prepare("gym", gym=MIXTURE, train_problems=50))
        assert again.train == problems.train[:50]
        assert again.test == problems.test

    @pytest.mark.slow
    def test_a_set_of_an_evaluation(self):
        one = EvaluationSet(dataset="gym:gcd", problems=5)
        problems, left_out = evaluation_problems(one, seed=7, gold_problem=lambda _: None)
        assert (len(problems), left_out) == (5, [])
        with pytest.raises(BadInputError, match="give its number of problems"):
            evaluation_problems(
                EvaluationSet(dataset="gym:gcd"), seed=7, gold_problem=lambda _: None
            )

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"dataset": "gym:leg_count"}, "gym:leg_count: .*did you mean leg_counting"),
            (
                {"dataset": "gym:composite"},
                "composite is none of the data sets of reasoning-gym; a mixture is given",
            ),
            ({"dataset": "gym", "gym": {"gcd": {"config": {"x": 1}}}}, "unexpected keyword.*'x'"),
            ({"dataset": "gym", "gym": {"gcd": {"levle": 1}}}, "levle is none of weight, level"),
            ({"dataset": "gym", "gym": {"acre": {"level": 1}}}, "No curriculum registered"),
        ],
    )
    def test_what_there_is_not(self, params, message):
        with pytest.raises(BadInputError, match=message):
            splits_of(prepare(**params))

    def test_another_version_of_the_environment_is_another_digest(self, monkeypatch, tmp_path):
        """Of the problems and of the verdicts."""
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "python").symlink_to(TASKS / "bin" / "python")
        packages = tmp_path / "lib" / "python3.11" / "site-packages"
        digests = []
        for version in ("1", "2"):
            (packages / f"reasoning_gym-{version}.dist-info").mkdir(parents=True)
            monkeypatch.setenv("REASONLOOP_TASKS", str(tmp_path))
            found = load_params(overrides=["prepare.dataset=gym:gcd"])
            beside = load_params(overrides=["evaluate.sets=[{dataset: gym:gcd, problems: 2}]"])
            sections = (found.prepare, found.verify, beside.verify)
            digests.append([one.code_digest for one in sections])
        assert all(a != b for a, b in zip(*digests, strict=True))
        assert packages_of(tmp_path / "bin" / "python") == packages


@needs_tasks
class TestScores:
    def test_strict_lenient_and_the_float(self, problems, verifier):
        """The tagged answer is strict; countdown gives .05 for a wrong and the default scorer a share for a longer one."""
        legs, numbers = of(problems, "leg_counting")[0], of(problems, "countdown")[0]
        right, wrong = legs.solution, f"{legs.solution}0"
        verdicts = judged(
            verifier,
            [
                (legs, f"<answer>{right}</answer>"),
                (legs, f"The answer is {right}."),
                (legs, f"<answer>{wrong}</answer>"),
                (legs, f"<answer>it is {right}</answer>"),
                (legs, ""),
                (legs, "<answer></answer>"),
                (numbers, f"<answer>{numbers.solution}</answer>"),
                (numbers, "<answer>1 + 1</answer>"),
            ],
        )
        assert [(one.strict, one.lenient) for one in verdicts] == [
            *((True, True), (False, True), (False, False), (False, True)),
            *((False, False), (False, False), (True, True), (False, False)),
        ]
        scores = [one.score for one in verdicts]
        assert scores == pytest.approx(
            [1, 1, len(right) / len(wrong), len(right) / len(f"it is {right}"), 0, 0, 1, 0.05]
        )
        assert [one.rule for one in verdicts[:2]] == ["tag", "answer_line"]
        assert [one.status for one in verdicts[2:6]] == [
            *(Status.WRONG, Status.CORRECT, Status.UNPARSED, Status.UNPARSED)
        ]

    def test_golds_with_tuples_and_options_keep_their_scores(self, problems, verifier):
        """rearc compares tuples; puzzle24 asks its config for the range of its numbers."""
        tuples, narrow = of(problems, "rearc"), of(problems, "puzzle24")
        pairs = [
            (one, one.kind.solution_texts(one.gold, one.solution)[0]) for one in (*tuples, *narrow)
        ]
        assert all(one.strict for one in judged(verifier, pairs))
        [over] = judged(verifier, [(narrow[0], "<answer>6 * 4 * 1 * 1</answer>")])
        assert (over.strict, over.score) == (False, 0.01)

    def test_no_verdict(self, problems):
        """A deadline of the scorer, after which the next text is scored."""
        [numbers, *_] = of(problems, "countdown")
        with open_verifier(VerifyParams(own=OwnLimits(timeout_s=1.0))) as short:
            slow, next_one = judged(
                short,
                [(numbers, "<answer>9**9**9**9</answer>"), (numbers, "<answer>2</answer>")],
            )
        assert (slow.status, slow.strict, slow.score) == (Status.TIMEOUT, None, None)
        assert next_one.strict is False

    def test_votes(self, problems, verifier):
        book = AnswerBook(kind=problems.train[0].kind, verifier=verifier)
        texts = ["<answer>1\n2</answer>", "<answer> 1 2</answer>", "\\boxed{3}", ""]
        assert [book.number(text) for text in texts] == [0, 0, 1, None]

    @pytest.mark.slow
    def test_the_check_of_a_task(self):
        """Worked solutions are strict, empty texts are not."""
        sizes = ["train_problems=2", "test_problems=2", "bootstrap_problems=1"]
        params = load_params(
            overrides=["prepare.dataset=gym:gcd", *(f"prepare.{one}" for one in sizes)]
        )
        found = check_task(params)
        assert len(found.trials) == 10
        assert found.faults == []

    def test_no_such_set(self):
        """One line, as for a file of `verify` that names it."""
        gold = GymGold(of="gym:legs", entry="{}")
        with (
            open_verifier(VerifyParams()) as opened,
            pytest.raises(BadInputError, match="golds of gym:legs to gym:legs: legs is none of"),
        ):
            opened.judge([Item(gold=gold, text="<answer>1</answer>")])

    def test_docker_alone_is_refused(self, problems, monkeypatch):
        """Its image has no tasks environment."""
        tested = SimpleNamespace(tier="docker", close=lambda: None)
        monkeypatch.setattr("pipeline_lib.verify.gym.open_tier", lambda _: tested)
        with (
            open_verifier(VerifyParams()) as opened,
            pytest.raises(ReasonloopError, match="needs the sandbox tier namespace or landlock"),
        ):
            judged(opened, [(problems.train[0], "<answer>1</answer>")])


@needs_tasks
class TestExploits:
    """Commands in the place of an answer: they run where the library alone scores, and not here."""

    @pytest.mark.slow
    @pytest.mark.parametrize("name", EXPLOITS)
    def test_the_library_alone_runs_them(self, name, tmp_path):
        """Else the other tests would say nothing."""
        command = f"echo owned; touch {tmp_path}/owned"
        answer = EXPLOITS[name].format(command=command)
        done = subprocess.run(
            [TASKS / "bin" / "python", "-c", RAW_SCORER],
            input=json.dumps([name, answer]), capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == "owned\nscored\n"
        assert (tmp_path / "owned").exists()

    @pytest.mark.parametrize(
        "tier", ["namespace", pytest.param("landlock", marks=pytest.mark.slow)]
    )
    def test_the_jail_holds_the_scorers_as_they_are(self, tier, tmp_path):
        """No new process: the scorers go on without a command."""
        tmp_path.chmod(0o777)
        python = TASKS / "bin" / "python"
        library = Library(
            python=python,
            folder=packages_of(python),
            warm=[("reasoning_gym",)],
        )
        command = f"echo owned; touch {tmp_path}/owned"
        requests = [json.dumps([n, text.format(command=command)]) for n, text in EXPLOITS.items()]
        jailed = JailedInterpreter(tier, timeout_s=30, memory_bytes=1 << 30, library=library)
        try:
            reports = [jailed.run(RAW_SCORER, TestSuite(stdin=one)) for one in requests]
        finally:
            jailed.close()
        for report in reports:
            assert (report.status, report.output) == (Status.CORRECT, "scored\n")
        assert not (tmp_path / "owned").exists()

    @pytest.mark.parametrize(
        "tier", ["namespace", pytest.param("landlock", marks=pytest.mark.slow)]
    )
    def test_the_judge_takes_them_for_wrong_answers(self, problems, tier, tmp_path, capfd):
        """Nothing is printed or written, and an answer that looks up the right one has no score for it."""
        tmp_path.chmod(0o777)
        [insertion, *_], [countdown, *_] = (of(problems, name) for name in EXPLOITS)
        command = f"echo owned; touch {tmp_path}/owned"
        write = f"open('{tmp_path}/owned', 'w').write('x')"
        frame = "__import__('sys')._getframe(1).f_locals['entry']['answer']"
        answers = [
            (insertion, EXPLOITS["string_insertion"].format(command=command)),
            *((insertion, text) for text in (write, frame)),
            (countdown, EXPLOITS["countdown"].format(command=command)),
            *(
                (countdown, text)
                for text in (write, "S('open(0)')", "().__class__", "eval(chr(49))")
            ),
        ]
        params = VerifyParams(own=OwnLimits(timeout_s=60.0), code=CodeLimits(tier=tier))
        with open_verifier(params) as opened:
            verdicts = judged(opened, [(one, f"<answer>{text}</answer>") for one, text in answers])
        assert [one.strict for one in verdicts] == [False] * len(answers)
        assert max(one.score for one in verdicts) <= 0.05
        assert not any(pathlib.Path(tmp_path).iterdir())
        assert capfd.readouterr() == ("", "")
