"""Problems of files, their prompts, conditions, and what does not fit a model."""

import json
import pathlib

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.systems.apr.evaluation.problem_source import (
    check_fit,
    read_problem_file,
    read_source,
)
from pipeline_lib.systems.apr.problem_lines import countdown_problem
from pipeline_lib.systems.apr.tasks import task_of
from tests.unit.systems.apr.learned_model import record

PROBLEM = countdown_problem("a", CountdownGold(numbers=(3, 5, 12), target=27))
STATE = "Current State: 27:[3, 5, 12], Operations: []"
PROMPT = f"Moving to Node #0\n{STATE}"


def written(folder, name, content):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content", "names"),
    [
        ("ours.jsonl", '{"id": "x", "numbers": [3, 5, 12], "target": 27}\n', ["x"]),
        ("val.json", [{"nums": [3, 5, 12], "target": 27, "solution": ["5*3=15"]}], ["val-0"]),
        (
            "val.json",
            [PROMPT, f"Sub Call Budget: 10 {PROMPT}\n", STATE],
            ["val-0", "val-1", "val-2"],
        ),
    ],
)
def test_problems_are_read_in_three_forms(tmp_path, name, content, names):
    """Ours; released problems, whose further fields are not read; prompts, without their conditions."""
    found = read_problem_file(written(tmp_path, name, content))
    assert [one.id for one in found] == names
    assert all(one.gold == PROBLEM.gold for one in found)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"id": "x", "numbers": [3, 5]}\n', "a.jsonl:1: target: Field required"),
        ("a.jsonl", "", "holds no problem"),
        ("a.json", [], "holds no problem"),
        ("a.json", {"nums": [1, 2], "target": 3}, "no JSON list"),
        ("a.json", [PROMPT, "27 from 3, 5"], "item 1: 27 from 3, 5; expected nums and target"),
        ("a.json", [{"nums": [3, "5"], "target": 27}], "item 0: "),
        ("a.json", [{"nums": [3], "target": 27}], "item 0: "),
        ("a.json", [{"nums": [3, -5], "target": 27}], "expected numbers from 0"),
        ("a.json", "[", "not JSON"),
    ],
)
def test_malformed_problems_are_one_line(tmp_path, name, content, message):
    """The line or item, and what was expected."""
    with pytest.raises(BadInputError) as refused:
        read_problem_file(written(tmp_path, name, content))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("given", [(None, None), (pathlib.Path("a"), pathlib.Path("b"))])
def test_one_source_is_given(given):
    """Neither none nor both."""
    with pytest.raises(BadInputError, match="either --data DATA or --problems FILE"):
        read_source(*given, None)


def test_a_file_has_no_splits(tmp_path):
    """A split is one of a data folder."""
    with pytest.raises(BadInputError, match="--split valid: is for --data"):
        read_source(None, written(tmp_path, "a.json", [PROMPT]), "valid")


def test_the_problems_of_a_split_are_read(small_data):
    """valid and test have other problems; test without a choice."""
    valid, test, chosen = (read_source(small_data, None, one) for one in ("valid", "test", None))
    assert {one.id for one in valid.problems}.isdisjoint(one.id for one in test.problems)
    assert chosen == test
    assert valid.style == "compact"


@pytest.mark.parametrize("kind", ["parallel", "serial"])
@pytest.mark.parametrize("style", ["compact", "published"])
def test_prompts_are_those_of_the_traces(tokenizer, kind, style):
    """Published serial traces begin with the state alone; a condition stands before the first line."""
    expected = STATE if (kind, style) == ("serial", "published") else PROMPT
    task = task_of(record(kind=kind, style=style), tokenizer, VerifyParams())
    found = task.prompt(PROBLEM, "Token Budget: 64 ")
    assert found == f"Token Budget: 64 {expected}"


def test_data_of_another_style_is_refused():
    """A compact model draws nothing useful on published data."""
    with pytest.raises(BadInputError, match="of style compact, the data is published"):
        check_fit(pathlib.Path("m"), record(), [PROBLEM], style="published")


def test_targets_need_no_factors(tokenizer, tmp_path):
    """A prompt of target 1 is written without the heuristic of the searches."""
    [problem] = read_problem_file(written(tmp_path, "a.json", [{"nums": [3, 4, 8], "target": 1}]))
    task = task_of(record(), tokenizer, VerifyParams())
    assert task.prompt(problem, "").endswith("1:[3, 4, 8], Operations: []")


def test_problems_of_another_size_are_refused():
    """The tokenizer has tokens for the numbers of 3-number problems alone."""
    four = countdown_problem("four", CountdownGold(numbers=(1, 2, 3, 4), target=10))
    with pytest.raises(BadInputError, match="is for 3 numbers, problem 'four' has 4 numbers"):
        check_fit(pathlib.Path("m"), record(), [PROBLEM, four], style=None)
