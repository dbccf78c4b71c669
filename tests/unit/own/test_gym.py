"""Data sets of reasoning-gym: their rows, their scores, and answers that its scorers would run."""

import ast
import dataclasses
import json
import pathlib
import subprocess
from collections import Counter

import pytest

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.own.code import packages_of
from pipeline_lib.params.evaluate import EvaluationSet
from pipeline_lib.params.paths import CodeLimits, OwnLimits, PrepareParams, VerifyParams
from pipeline_lib.params_file import load_params
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


def judged(pairs, **limits):
    params = VerifyParams(own=OwnLimits(**{"timeout_s": 60.0, **limits}))
    with open_verifier(params) as verifier:
        return verifier.judge([Item(gold=one.gold, text=text) for one, text in pairs])


def test_the_answers_in_a_text():
    """The tagged one first; an empty one is none, whatever else there is."""
    rules = {
        "<answer> 5 </answer>": [("tag", "5")],
        "a <answer>1</answer>\nb <answer>2\n3</answer>": [("tag", "2\n3")],
        "\\boxed{7}": [("boxed", "7")],
        "The answer is **12**.": [("answer_line", "12")],
        "x\n```\n1 2\n3 4\n```\n": [("block", "1 2\n3 4"), ("last_number", "4")],
        "there are 1,200 legs": [("last_number", "1,200"), ("last_line", "there are 1,200 legs")],
        "<think>so <answer>3</answer>": [("reasoning", "3")],
        "</answer> yes <answer>": [("last_line", "</answer> yes <answer>")],
        "<answer> </answer> 5": [],
        " \n": [],
    }
    for text, expected in rules.items():
        found = [(one.rule, one.answer) for one in find_answers(text)]
        assert found[: len(expected)] == expected, text
        assert bool(found) is bool(expected)


def test_params_of_a_mixture():
    """A number is a weight; names and the data set belong together."""
    params = prepare("gym", gym={"gcd": 2, "leg_counting": {"level": 1}})
    assert params.full_name == 'gym:{"gcd": {"weight": 2.0}, "leg_counting": {"level": 1}}'
    for wrong in ({"dataset": "gym"}, {"dataset": "countdown", "gym": {"gcd": 1}}):
        with pytest.raises(ValueError, match="a mixture needs dataset=gym and names"):
            PrepareParams(**wrong)
    with pytest.raises(ValueError, match="greater than 0"):
        prepare("gym", gym={"gcd": 0})


def test_without_the_environment(monkeypatch, tmp_path):
    """One line that says how it is made, for problems and for verdicts."""
    monkeypatch.setenv("REASONLOOP_TASKS", str(tmp_path))
    with pytest.raises(BadInputError, match="`make tasks-env` installs") as raised:
        load_params(overrides=["prepare.dataset=gym:gcd"])
    assert "\n" not in str(raised.value)


@needs_tasks
class TestRows:
    def test_splits(self):
        """Of other seeds, without a question twice; the id, the gold and the solution are the row's."""
        splits = splits_of(prepare())
        problems = [*splits.train, *splits.test, *splits.bootstrap]
        assert len({one.question for one in problems}) == len({one.id for one in problems}) == 12
        row = ast.literal_eval(problems[0].gold.entry)
        assert (row["question"], row["answer"]) == (problems[0].question, problems[0].solution)
        assert splits_of(prepare(train_problems=9)).train[:6] == splits.train
        assert splits_of(prepare(), seed=8).train != splits.train

    def test_equal_rows_in_two_processes(self, monkeypatch):
        """Though they draw from global generators, or iterate over sets."""
        names = {"list_functions": 1, "pool_matrix": 1, "isomorphic_strings": 1, "word_ladder": 1}
        params = prepare("gym", gym=names, train_problems=12)
        found = []
        for seed in ("1", "2"):
            monkeypatch.setenv("PYTHONHASHSEED", seed)
            found.append(splits_of(params).train)
        assert found[0] == found[1]
        assert {one.columns["set"] for one in found[0]} == {f"gym:{name}" for name in names}

    def test_a_mixture_with_levels(self):
        """Shares by weight; a level of the curriculum and values of the config reach rows and golds."""
        mixture = {
            "gcd": {"weight": 3, "config": {"max_value": 20}},
            "leg_counting": {"level": 0},
        }
        problems = splits_of(prepare("gym", gym=mixture, train_problems=40)).train
        shares = Counter(one.columns["set"].partition("{")[0] for one in problems)
        assert shares["gym:gcd"] > 2 * shares["gym:leg_counting"] > 0
        for one in problems:
            row = ast.literal_eval(one.gold.entry)
            if row["metadata"]["source_dataset"] == "gcd":
                assert max(row["metadata"]["numbers"]) <= 20
            else:
                assert one.gold.of == 'gym:leg_counting{"level": 0}'
                assert row["metadata"]["num_animals"] <= 5

    def test_a_set_of_an_evaluation(self):
        one = EvaluationSet(dataset="gym:gcd", problems=5)
        problems, left_out = evaluation_problems(one, seed=7, gold_problem=lambda _: None)
        assert (len(problems), left_out) == (5, [])
        with pytest.raises(BadInputError, match="give its number of problems"):
            evaluation_problems(
                EvaluationSet(dataset="gym:gcd"), seed=7, gold_problem=lambda _: None
            )

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"dataset": "gym:leg_count"}, "no data set 'leg_count'; did you mean leg_counting"),
            ({"dataset": "gym:composite"}, "no data set 'composite'"),
            ({"dataset": "gym", "gym": {"gcd": {"config": {"x": 1}}}}, "unexpected keyword.*'x'"),
            ({"dataset": "gym", "gym": {"acre": {"level": 1}}}, "No curriculum registered"),
        ],
    )
    def test_what_there_is_not(self, params, message):
        with pytest.raises(BadInputError, match=message):
            splits_of(prepare(**params))

    def test_another_version_of_the_environment_is_another_digest(self, monkeypatch, tmp_path):
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "python").symlink_to(TASKS / "bin" / "python")
        packages = tmp_path / "lib" / "python3.11" / "site-packages"
        digests = []
        for version in ("1", "2"):
            (packages / f"reasoning_gym-{version}.dist-info").mkdir(parents=True)
            monkeypatch.setenv("REASONLOOP_TASKS", str(tmp_path))
            digests.append(load_params(overrides=["prepare.dataset=gym:gcd"]).prepare.code_digest)
        assert digests[0] != digests[1]
        assert packages_of(tmp_path / "bin" / "python") == packages


@needs_tasks
class TestScores:
    def test_strict_lenient_and_the_float(self):
        """The tagged answer is strict; countdown gives .05 for a wrong and the default scorer a share for a longer one."""
        legs = splits_of(prepare()).train[0]
        numbers = splits_of(prepare("gym:countdown")).train[0]
        right, wrong = legs.solution, f"{legs.solution}0"
        verdicts = judged(
            [
                (legs, f"<answer>{right}</answer>"),
                (legs, f"The answer is {right}."),
                (legs, f"<answer>{wrong}</answer>"),
                (legs, f"<answer>it is {right}</answer>"),
                (legs, ""),
                (legs, "<answer></answer>"),
                (numbers, f"<answer>{numbers.solution}</answer>"),
                (numbers, "<answer>1 + 1</answer>"),
            ]
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

    def test_golds_with_tuples_and_levels_keep_their_scores(self):
        """arc_1d and rearc compare tuples; puzzle24 asks its config for the range of its numbers."""
        narrow = {"puzzle24": {"config": {"max_value": 5}}}
        for params in (prepare("gym:rearc"), prepare("gym", gym=narrow)):
            problems = splits_of(params).test
            texts = [one.kind.solution_texts(one.gold, one.solution)[0] for one in problems]
            assert all(one.strict for one in judged(zip(problems, texts, strict=True)))
        [over] = judged([(problems[0], "<answer>6 * 4 * 1 * 1</answer>")])
        assert (over.strict, over.score) == (False, 0.01)

    def test_no_verdict(self):
        """A deadline of the scorer; and an answer that no list of scores comes of."""
        numbers = splits_of(prepare("gym:countdown")).train[0]
        slow, next_one = judged(
            [(numbers, "<answer>9**9**9**9</answer>"), (numbers, "<answer>2</answer>")],
            timeout_s=1.0,
        )
        assert (slow.status, slow.strict, slow.score) == (Status.TIMEOUT, None, None)
        assert next_one.strict is False
        odd = dataclasses.replace(
            numbers, gold=dataclasses.replace(numbers.gold, entry="{'answer': None}")
        )
        [verdict] = judged([(odd, "<answer>1</answer>")])
        assert verdict.strict is False

    def test_votes(self):
        params = VerifyParams()
        legs = splits_of(prepare()).train[0]
        with open_verifier(params) as verifier:
            book = AnswerBook(kind=legs.kind, verifier=verifier)
            texts = ["<answer>1\n2</answer>", "<answer> 1 2</answer>", "\\boxed{3}", ""]
            assert [book.number(text) for text in texts] == [0, 0, 1, None]

    def test_the_check_of_a_task(self):
        """Worked solutions are strict, empty texts are not."""
        sizes = ["train_problems=2", "test_problems=2", "bootstrap_problems=1"]
        params = load_params(
            overrides=["prepare.dataset=gym:gcd", *(f"prepare.{one}" for one in sizes)]
        )
        found = check_task(params)
        assert len(found.trials) == 10
        assert found.faults == []

    def test_docker_alone_is_refused(self, monkeypatch):
        """Its image has no tasks environment."""
        monkeypatch.setattr("pipeline_lib.verify.gym.find_tier", lambda _: "docker")
        with pytest.raises(ReasonloopError, match="need the tier namespace or landlock"):
            judged([(splits_of(prepare()).train[0], "<answer>1</answer>")])


@needs_tasks
class TestExploits:
    """Commands in the place of an answer: they run where the library alone scores, and not here."""

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

    @pytest.mark.parametrize("tier", ["namespace", "landlock"])
    @pytest.mark.parametrize("name", EXPLOITS)
    def test_the_jail_holds_the_scorers_as_they_are(self, name, tier, tmp_path):
        """No new process: the scorer goes on without a command."""
        tmp_path.chmod(0o777)
        python = TASKS / "bin" / "python"
        library = Library(
            python=python,
            folder=packages_of(python),
            warm=[("importlib:import_module", "reasoning_gym")],
        )
        command = f"echo owned; touch {tmp_path}/owned"
        request = json.dumps([name, EXPLOITS[name].format(command=command)])
        jailed = JailedInterpreter(tier, timeout_s=30, memory_bytes=1 << 30, library=library)
        try:
            report = jailed.run(RAW_SCORER, TestSuite(stdin=request))
        finally:
            jailed.close()
        assert (report.status, report.output) == (Status.CORRECT, "scored\n")
        assert not (tmp_path / "owned").exists()

    @pytest.mark.parametrize("tier", ["namespace", "landlock"])
    def test_the_judge_takes_them_for_wrong_answers(self, tier, tmp_path, capfd):
        """Nothing is printed or written, and an answer that looks up the right one has no score for it."""
        tmp_path.chmod(0o777)
        insertion = splits_of(prepare("gym:string_insertion")).train[0]
        countdown = splits_of(prepare("gym:countdown")).train[0]
        command = f"echo owned; touch {tmp_path}/owned"
        write = f"open('{tmp_path}/owned', 'w').write('x')"
        frames = "__import__('sys')._getframe({depth}).f_locals['entry']['answer']"
        answers = [
            *((insertion, EXPLOITS["string_insertion"].format(command=command)),),
            *((insertion, text) for text in (write, frames.format(depth=1))),
            *((countdown, EXPLOITS["countdown"].format(command=command)),),
            *((countdown, text) for text in (write, "S('open(0)')", "().__class__", "eval(chr(49))")),
        ]
        params = VerifyParams(own=OwnLimits(timeout_s=60.0), code=CodeLimits(tier=tier))
        with open_verifier(params) as verifier:
            texts = [Item(gold=one.gold, text=f"<answer>{text}</answer>") for one, text in answers]
            verdicts = verifier.judge(texts)
        assert [one.strict for one in verdicts] == [False] * len(answers)
        assert max(one.score for one in verdicts) <= 0.05
        assert not any(pathlib.Path(tmp_path).iterdir())
        assert capfd.readouterr() == ("", "")
