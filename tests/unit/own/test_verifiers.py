"""Task sets of verifiers: their tasks as problems, their rewards as scores, and what needs more than a text."""

import json
import subprocess

import pytest

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.errors import BadInputError
from pipeline_lib.own.code import TASKS as GROUP
from pipeline_lib.own.code import Function, code_of, find_source
from pipeline_lib.params.evaluate import EvaluationSet
from pipeline_lib.params.paths import OwnLimits, PrepareParams, VerifyParams
from pipeline_lib.problems.splits import evaluation_problems, make_splits
from pipeline_lib.sampling.prompts import messages_in_words
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.dispatch import Item, open_verifier
from tests.unit.own.tasks_environment import SETS, environment_with, needs_tasks

NEEDY = """
import verifiers.v1 as vf

__all__ = ["NeedyTaskset"{exports}]


class NeedyTask(vf.Task[vf.TaskData]):
    {task}

    @vf.reward
    async def right(self, trace{arguments}):
        return 1.0


class NeedyTaskset(vf.Taskset[NeedyTask, vf.TasksetConfig]):
    def load(self):
        yield NeedyTask(vf.TaskData({data}))

{more}
"""
PLAIN = {
    "exports": "", "task": "pass", "arguments": "", "data": "prompt='What?'", "more": ""
}  # fmt: skip
NEEDS = {
    "needs_nothing": ({}, None),
    "needs_a_container": ({"task": "NEEDS_CONTAINER = True"}, "a container"),
    "needs_an_image": ({"data": "prompt='What?', image='python'"}, "a container"),
    "needs_setup": (
        {"task": "async def setup(self, trace, runtime):\n        pass"},
        "a runtime for setup",
    ),
    "needs_to_look": ({"arguments": ", runtime"}, "a runtime for right"),
    "needs_a_user": ({"data": "prompt=None"}, "a task without a prompt of texts"),
    "needs_a_harness": (
        {
            "exports": ", 'Own'",
            "more": "class Own(vf.Harness[vf.HarnessConfig]):\n    async def launch(self): ...",
        },
        "its own harness",
    ),
    "needs_agents": (
        {
            "exports": ", 'Own'",
            "more": "class Own(vf.Env[vf.EnvConfig]):\n    async def run(self, task, agents): ...",
        },
        "its own environment",
    ),
}

LIST = """
import json, sys
sys.path.append(sys.argv[1])
from pipeline_lib.own import task_sets
found = {}
for name, of in json.loads(sys.argv[2]).items():
    try:
        found[name] = f"{len([*task_sets.problems(of, 'test', 7, wanted={'test': 1})])} task"
    except Exception as error:
        found[name] = str(error)
print(json.dumps(found))
"""

pytestmark = [needs_tasks, pytest.mark.slow]


@pytest.fixture(scope="module", autouse=True)
def sets(tmp_path_factory):
    """The folder of the sets that need more than a text."""
    needy = tmp_path_factory.mktemp("needy")
    for name, (change, _) in NEEDS.items():
        (needy / f"{name}.py").write_text(NEEDY.format(**{**PLAIN, **change}), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        environment = environment_with(tmp_path_factory.mktemp("environment"), SETS, needy)
        patch.setenv("REASONLOOP_TASKS", str(environment))
        yield environment


def splits_of(**fields):
    sizes = {"train_problems": 4, "test_problems": 2, "bootstrap_problems": 0}
    params = PrepareParams(**{"dataset": "verifiers:echoes", **sizes, **fields})
    return make_splits(params, seed=7, gold_problem=lambda _: None)


@pytest.fixture(scope="module")
def splits(sets):
    return splits_of()


def test_tasks_are_problems(splits):
    """Divided by the wanted numbers; with their own keys as ids, and their messages as the whole prompt."""
    problems = [*splits.train, *splits.test]
    assert (len(splits.train), len(splits.test), len(splits.bootstrap)) == (4, 2, 0)
    assert {one.question[-2:] for one in problems} == {f"{word}." for word in "abcdef"}
    assert all(len(one.id) == 64 for one in problems)
    asked = {tuple(turn.role for turn in messages_in_words(one)) for one in problems}
    assert asked == {("system", "user"), ("system", "user", "assistant", "user")}
    assert messages_in_words(problems[0])[-1].content.endswith(problems[0].question[-6:])


def test_the_config_of_a_set(sets):
    """Its fields are params; a set that is too small is divided, and an evaluation takes all that it asks for."""
    splits = splits_of(taskset={"words": 3})
    assert (len(splits.train), len(splits.test)) == (2, 1)
    assert splits.train[0].gold.of == 'verifiers:echoes{"words": 3}'
    one = EvaluationSet(dataset="verifiers:echoes", taskset={"words": 3}, problems=9)
    assert len(evaluation_problems(one, seed=7, gold_problem=lambda _: None)[0]) == 3
    with pytest.raises(BadInputError, match="words"):
        splits_of(taskset={"words": "many"})
    with pytest.raises(ValueError, match="taskset is for dataset=verifiers:ID, not gym:gcd"):
        PrepareParams(dataset="gym:gcd", taskset={"words": 3})


def test_rewards_are_scores(splits):
    """Weights 3 and 1: (3 * 1 + 1 * 0) / 4; a third one of weight -1 for a long reply: 2 / 4; an error is no score."""
    problem = splits.train[0]
    word = json.loads(problem.gold.entry)["data"]["word"]
    texts = [word, f"{word}!", f"{word} and much more than that", "zz", "z" * 30, "raise"]
    with open_verifier(VerifyParams(own=OwnLimits(timeout_s=120.0))) as verifier:
        verdicts = verifier.judge([Item(gold=problem.gold, text=text) for text in texts])
    assert [one.score for one in verdicts] == [1.0, 0.75, 0.5, 0.0, 0.0, None]
    assert [one.strict for one in verdicts] == [True, False, False, False, False, None]
    assert verdicts[-1].status is Status.VERIFIER_ERROR
    assert "the reward broke" in verdicts[-1].detail


def test_what_needs_more_is_named(sets):
    """In one process, as a process takes seconds to import the library; and by the command's way."""
    names = {name: f"verifiers:{name.replace('_', '-')}" for name in NEEDS}
    done = subprocess.run(
        [sets / "bin" / "python", "-c", LIST, REPOSITORY, json.dumps(names)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.keys() == NEEDS.keys()
    for name, (_, expected) in NEEDS.items():
        assert (expected or "1 task") in found[name]
        assert expected is None or names[name] in found[name]
    with pytest.raises(BadInputError, match="needs a container: play it by vf-eval"):
        splits_of(dataset="verifiers:needs-a-container")


def test_no_such_set():
    with pytest.raises(BadInputError, match="'nothing-here' not found"):
        splits_of(dataset="verifiers:nothing-here")


def test_an_edit_of_an_installed_folder_is_another_digest(sets, tmp_path):
    """As `pip install -e FOLDER` records it."""
    [packages] = sets.glob("lib/python*/site-packages")
    record = packages / "echoes-1.dist-info" / "direct_url.json"
    record.parent.mkdir()
    record.write_text(json.dumps({"url": tmp_path.as_uri(), "dir_info": {"editable": True}}))
    function = Function(
        source=find_source("verifiers:echoes", key="test", group=GROUP), name="problems"
    )
    digests = []
    for text in ("x = 1\n", "x = 2\n"):
        (tmp_path / "echoes.py").write_text(text, "utf-8")
        digests.append(code_of(function))
    assert digests[0] != digests[1]
