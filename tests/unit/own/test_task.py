"""A task in one file: its problems, prompts and params."""

import pathlib
import shutil

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params_file import load_params
from pipeline_lib.problems.splits import make_splits
from pipeline_lib.sampling.prompts import render

TASK = pathlib.Path(__file__).with_name("palindromes.py")
SIZES = ["prepare.train_problems=20", "prepare.test_problems=10", "prepare.bootstrap_problems=5"]


def params(task=TASK, *overrides):
    return load_params(overrides=[f"prepare.dataset={task}", *SIZES, *overrides])


def splits_of(found, seed=3):
    return make_splits(found.prepare, seed=seed, gold_problem=lambda _: None)


def edited(tmp_path, old, new):
    text = TASK.read_text("utf-8")
    assert old in text
    (tmp_path / "task.py").write_text(text.replace(old, new), "utf-8")
    return tmp_path / "task.py"


def test_a_task_says_what_the_params_do_not():
    found = params(TASK, "train.method=grpo")
    assert found.verify.verifier == f"{TASK}:verify"
    assert found.verify.answer == f"{TASK}:answer"
    assert found.prepare.prompt == f"{TASK}:PROMPT"
    assert [(one.name, one.function) for one in found.train.rewards] == [
        ("reward", f"{TASK}:reward")
    ]
    own = params(
        TASK, "train.method=grpo", "train.rewards=[{name: verified}]", "prepare.prompt='{word}?'"
    )
    assert [one.name for one in own.train.rewards] == ["verified"]
    assert own.prepare.prompt == "{word}?"
    assert params().train.rewards == ()
    assert found.verify.of_task
    assert not params(TASK, f"verify.verifier={TASK}:verify").verify.of_task


def test_every_system_has_the_task():
    """Its prompt and verifier in Classmate, its reward in the training of PaCoRe, its kind in PaCoRe's votes."""
    found = params(TASK, f"classmate.prepare.dataset={TASK}", "pacore.train.method=grpo")
    assert found.classmate.prepare.prompt == f"{TASK}:PROMPT"
    assert found.classmate.prepare.code_digest
    assert [one.function for one in found.pacore.train.rewards] == [f"{TASK}:reward"]
    assert found.pacore.kind == "own"
    assert found.train.rewards == found.classmate.train.rewards == ()
    alone = load_params(overrides=[f"classmate.prepare.dataset={TASK}"])
    assert (alone.prepare.prompt, alone.verify.verifier) == (None, f"{TASK}:verify")


def test_two_tasks(tmp_path):
    """Their verifiers would be one param."""
    other = edited(tmp_path, "a", "a")
    with pytest.raises(BadInputError, match=r"are two tasks"):
        params(TASK, f"classmate.prepare.dataset={other}")


def test_problems_and_prompts():
    """An iterator without an end gives as many as are wanted; the prompt is the template alone."""
    splits = splits_of(params())
    assert [len(one) for one in (splits.train, splits.test, splits.bootstrap)] == [20, 10, 5]
    problem = splits.train[0]
    assert problem.gold.answer in {'"yes"', '"no"'}
    assert problem.columns == {"word": problem.question[3:]}
    assert render(problem, None) == f"{problem.question}\n"
    assert splits == splits_of(params())
    assert splits.train != splits_of(params(), seed=4).train
    [first] = {
        render(one, None) for one in splits_of(params(TASK, "prepare.prompt='{word}?'")).train[:1]
    }
    assert first == f"{problem.columns['word']}?"


def test_a_prompt_by_a_function(tmp_path):
    """A text, or messages."""
    task = edited(
        tmp_path,
        'PROMPT = "{question}\\n"',
        'def prompt(problem):\n    return [{"role": "system", "content": "Be brief."}, '
        '{"role": "user", "content": problem.columns["word"]}]',
    )
    problem = splits_of(params(task)).train[0]
    assert problem.turns == (("system", "Be brief."), ("user", problem.columns["word"]))


def test_what_changes_which_digest(tmp_path):
    """Problems and prompt, verifier and answer, reward: each its own; a comment none."""

    def digests(task):
        found = params(task, "train.method=grpo")
        return (
            found.prepare.code_digest,
            found.verify.code_digest,
            found.train.code_digest,
        )

    before = digests(shutil.copy(TASK, tmp_path / "task.py"))
    for old, new, changed in [
        ('PROMPT = "{question}\\n"', 'PROMPT = "{question}?"', (True, False, False)),
        ("half[::-1] if", "half if", (True, False, False)),
        ("text.strip() == answer", "text == answer", (False, True, False)),
        ("[:3]", "[:2]", (False, True, False)),
        ("/ 100", "/ 10", (False, False, True)),
        ('"""A task of one file."""', '"""One."""  # a file', (False, False, False)),
    ]:
        after = digests(edited(tmp_path, old, new))
        assert tuple(a != b for a, b in zip(before, after, strict=True)) == changed


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"answer": answer,', '"ansver": answer,', "answer or gold.*missing"),
        ('"question": f', '"quest": f', "question or problem.*missing"),
        (
            'f"{split[:2]} {word}"',
            "''",
            r"problems\('(train|test|bootstrap)', 3\) row 1: 'question'",
        ),
        ("while True:", "while split != 'test':", r"problems\('test', 3\) gives none"),
        ("draw = random", "return 7\n    draw = random", "gives none"),
        ("draw = random", "1 / 0\n    draw = random", r"ZeroDivisionError.*task.py:9"),
        ("yield {", "yield ['a'] or {", "expected a dict"),
        ("{split[:2]} {word}", "the same one", r"problems\('train', 3\) gives none of its own"),
        (
            'PROMPT = "{question}\\n"',
            'PROMPT = "{quest}"',
            r"KeyError\('quest'\).*names are word, question",
        ),
        ('PROMPT = "{question}\\n"', "PROMPT = 7", "a prompt is a text or a list"),
        ("def problems", "def problem", "has no problems at its top level"),
    ],
)
def test_faults(tmp_path, old, new, message):
    with pytest.raises(BadInputError, match=message):
        splits_of(params(edited(tmp_path, old, new)))


def test_unknown_names():
    with pytest.raises(BadInputError, match=r"prepare.dataset=nowhere.py: no such file"):
        params("nowhere.py")
    with pytest.raises(BadInputError, match=r"data set 'gsm9k' is unknown; did you mean 'gsm8k'"):
        params("gsm9k")
