"""Rollouts of other tools: their formats, golds, rewards and arms."""

import json

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.store.files import read_json, read_json_lines
from pipeline_lib.systems.loop.imports.comparison import (
    compare_rollouts,
    problem_finder,
    read_lines_of,
)
from pipeline_lib.systems.loop.imports.formats import read_rollouts
from tests.unit.systems.loop.imports import other_tools
from tests.unit.systems.loop.imports.other_tools import ONE_OF_EACH, Said, write_lines

PARAMS = Params.model_validate({"evaluate": {"resamples": 200}})


def imported(*paths, form=None, kind="math", problems=None, rewards=()):
    find = problem_finder(kind, problems)
    return read_lines_of({path.name: path for path in paths}, form, find, rewards=rewards)


@pytest.mark.parametrize("name", other_tools.WRITERS)
def test_every_format_is_recognized_and_compared(tmp_path, name):
    """Of 4 texts one is in each cell of reward against verdict, so 2 of 4 agree; golds are from the file."""
    path = other_tools.WRITERS[name](tmp_path / name, ONE_OF_EACH)
    rewards = ["exact_match,flexible-extract"] if "samples" in name else []
    lines = imported(path, rewards=rewards)
    assert [line["text"] for line in lines] == [one.text for one in ONE_OF_EACH]
    assert all(
        one.question in line["question"] for one, line in zip(ONE_OF_EACH, lines, strict=True)
    )
    differing = compare_rollouts(lines, tmp_path / "out", PARAMS, threshold=0.5)
    [found] = read_json(tmp_path / "out" / "metrics.json")["compute"]["agreement"]
    cells = ("both right", "both wrong", "right by it alone", "right by us alone", "not judged")
    assert [found[cell] for cell in cells] == [1, 1, 1, 1, 0]
    # Wilson's interval of 2 of 4 at 95 %: (2 + 1.92 -+ 1.96 sqrt(1 + 0.96)) / (4 + 3.84).
    assert found["agreement"] == pytest.approx({"value": 0.5, "low": 0.15, "high": 0.85}, abs=0.001)
    assert [one["text"] for one in differing] == [r"so \boxed{9}", r"so \boxed{10}"]
    assert [(one["said"], one["lenient"]) for one in differing] == [(True, False), (False, True)]
    assert [*read_json_lines(tmp_path / "out" / "disagreements.jsonl")] == differing


def test_filters_of_one_answer_are_rewards_of_one_text(tmp_path):
    """lm-eval writes a record for each filter; the text is judged once and compared with each."""
    path = other_tools.write_lm_eval(tmp_path / "samples_gsm8k.jsonl", ONE_OF_EACH)
    lines = imported(path)
    assert len(lines) == 4
    assert lines[0]["rewards"] == {
        "exact_match,strict-match": 0.0,
        "exact_match,flexible-extract": 1.0,
    }


def test_repeats_have_the_scores_of_each(tmp_path):
    """Without scores of each repeat none has a reward: a metric is of their vote."""
    path = other_tools.write_lm_eval(tmp_path / "samples.jsonl", ONE_OF_EACH[:1])
    [row, _] = read_json_lines(path)
    row["resps"] = [["4", "5"]]
    write_lines(path, [row])
    assert [one["rewards"] for one in imported(path)] == [{}, {}]
    write_lines(path, [{**row, "scores_per_repeat": {"exact_match": [1.0, 0.0]}}])
    name = "exact_match,strict-match"
    assert [one["rewards"] for one in imported(path)] == [{name: 1.0}, {name: 0.0}]


def test_the_sum_of_weighted_rewards_is_verifiers_reward(tmp_path):
    """0.5 of weight 2 and 1 of weight 0.25: 1.25. A trace alone is read like an episode."""
    path = other_tools.write_traces(tmp_path / "traces.jsonl", ONE_OF_EACH[:1])
    [episode] = read_json_lines(path)
    [trace] = episode["traces"]
    trace["rewards"] = {
        "half": {"score": 0.5, "weight": 2.0},
        "whole": {"score": 1.0, "weight": 0.25},
    }
    write_lines(path, [trace])
    _, [found] = read_rollouts(path)
    assert found.rewards == {"reward": 1.25, "half": 0.5, "whole": 1.0}
    assert (found.model, found.step, found.name) == ("org/model", None, "key-0")


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"completion": None, "error": "timeout"}, "error"), ({"is_truncated": True}, "length")],
)
def test_the_end_of_a_text_is_kept(tmp_path, change, reason):
    """A failed request has no text and no verdict; a cut one is marked."""
    path = other_tools.write_results(tmp_path / "results.jsonl", ONE_OF_EACH)
    rows = [*read_json_lines(path)]
    write_lines(path, [{**rows[0], **change}, *rows[1:]])
    lines = imported(path)
    assert [line["finish_reason"] for line in lines] == [reason, "stop", "stop", "stop"]
    compare_rollouts(lines, tmp_path / "out", PARAMS, threshold=0.5)
    [found] = read_json(tmp_path / "out" / "metrics.json")["compute"]["agreement"]
    assert found["not judged"] == (reason == "error")


def test_golds_are_joined_by_the_last_question_of_a_prompt_or_by_id(tmp_path):
    """The prompt holds a worked example and a chat template; the second record has the id alone."""
    problems = write_lines(
        tmp_path / "problems.jsonl",
        [
            {"id": "a", "question": "What is 1+1?", "gold": "2"},
            {"id": "b", "question": "What  is 2+2?", "gold": "4"},
            {"id": "9", "gold": "18", "note": "kept"},
        ],
    )
    prompt = "user\nWhat is 1+1? 2\nWhat is 2+2?\nassistant"
    answers = [Said(prompt, "5", "4", 1.0), Said("Whatever?", "5", "18", 1.0)]
    path = other_tools.write_results(tmp_path / "results.jsonl", answers)
    rows = [*read_json_lines(path)]
    write_lines(path, [rows[0], {**rows[1], "example_id": 9}])
    found = imported(path, problems=problems)
    assert [(one["problem_id"], one["gold"]) for one in found] == [("b", "4"), ("9", "18")]


@pytest.mark.parametrize(
    ("gold", "kind", "fields"),
    [
        ("7", "math", {"gold": "7"}),
        (7, "math", {"gold": 7}),
        (r"so \boxed{\frac12}", "math", {"gold": r"\frac12"}),
        ("so 3+4\n#### 7", "math", {"reference": "so 3+4\n#### 7"}),
        ('{"numbers": [3, 4], "target": 7}', "countdown", {"numbers": [3, 4], "target": 7}),
        ({"numbers": [3, 4], "target": 7}, "countdown", {"numbers": [3, 4], "target": 7}),
    ],
)
def test_golds_of_the_file(tmp_path, gold, kind, fields):
    """An answer, a worked solution, or the fields of another kind, also as JSON in a string."""
    path = other_tools.write_verl(tmp_path / "1.jsonl", ONE_OF_EACH[:1])
    [row] = read_json_lines(path)
    write_lines(path, [{**row, "gts": gold}])
    [line] = imported(path, kind=kind)
    assert {name: line[name] for name in fields} == fields


def test_steps_are_paired_with_the_first(tmp_path):
    """Steps 2 and 10 minus step 1 on the same problems, the last one first; p-values by Holm's method."""
    solved = [one._replace(text=rf"\boxed{{{one.gold}}}") for one in ONE_OF_EACH]
    steps = {10: solved, 2: ONE_OF_EACH, 1: ONE_OF_EACH}
    paths = [
        other_tools.write_verl(tmp_path / f"{step}.jsonl", texts, step=step)
        for step, texts in steps.items()
    ]
    compare_rollouts(imported(*paths), tmp_path / "out", PARAMS, threshold=0.5)
    study = read_json(tmp_path / "out" / "metrics.json")
    lenient = [one for one in study["differences"] if one["subset"] == "lenient"]
    assert [(one["arm"], one["reference"]) for one in lenient] == [
        ("rollouts of=step 10", "rollouts of=step 1"),
        ("rollouts of=step 2", "rollouts of=step 1"),
    ]
    assert [one["value"] for one in lenient] == [0.5, 0.0]
    assert all(one["p_adjusted"] >= one["p"] for one in lenient)
    assert study["differences"][0] == lenient[0]
    names = sorted(path.name for path in (tmp_path / "out" / "paths").iterdir())
    assert names == ["step-1.jsonl", "step-10.jsonl", "step-2.jsonl"]


def test_files_of_one_model_are_arms_of_their_own(tmp_path):
    """Two logs of one model are told apart by their labels."""
    paths = [
        other_tools.write_inspect(tmp_path / name, ONE_OF_EACH) for name in ("a.eval", "b.eval")
    ]
    arms = [line["arm"] for line in imported(*paths)]
    assert arms == ["a.eval org/model"] * 4 + ["b.eval org/model"] * 4


ROW = {"input": "q", "output": "a", "gts": "1", "score": 1.0, "step": 1}


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("", {}, "holds no rollout"),
        ('{"input": "q", "outp', {}, ":1: not a JSON object"),
        ("[]\n", {}, ":1: expected a JSON object"),
        ('{"a": 1}\n', {}, ":1: keys a are of no known format; give --format verl"),
        (json.dumps(ROW), {"form": "trl"}, ":1: no rollout of trl (KeyError: 'prompt')"),
        (json.dumps(ROW | {"step": "x"}), {}, ":1: no rollout of verl (ValueError"),
        (json.dumps(ROW | {"output": 7}), {}, ":1: text: expected a string"),
        (json.dumps(ROW | {"gts": None}), {}, ":1: has no gold; give --problems"),
        (json.dumps(ROW), {"kind": "code"}, ":1: entry_point"),
        (json.dumps(ROW), {"rewards": ["acc"]}, "--reward acc: there are score"),
        (json.dumps(ROW), {"form": "inspect"}, "damaged, or of another format"),
        ("PAR1 and no table", {}, ":1: not a JSON object"),
        ("PK\3\4 and no archive", {}, "damaged, or of another format"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, content, options, words):
    """File, line and remedy."""
    path = tmp_path / "1.jsonl"
    path.write_text(content)
    with pytest.raises(BadInputError) as caught:
        imported(path, **options)
    assert words in str(caught.value)
    assert str(path) in str(caught.value) or "rewards" in options
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_bad_line_of_problems(tmp_path):
    """Both are named."""
    with pytest.raises(BadInputError, match=r"1\.jsonl: no such file"):
        imported(tmp_path / "1.jsonl")
    problems = write_lines(tmp_path / "problems.jsonl", [{"question": "q"}])
    with pytest.raises(BadInputError, match=r"problems\.jsonl:1: gold"):
        problem_finder("math", problems)


def write_turns(path, *, role="user", **trace):
    """A trace of two turns, beside a branch that ends early."""
    said = [
        ("system", "Be brief."),
        ("user", "2+2?"),
        ("assistant", "5"),
        (role, "Sure?"),
        ("assistant", "4"),
    ]
    nodes = [
        {
            "message": {"role": one, "content": text},
            "sampled": one == "assistant",
            "parent": place - 1 if place else None,
        }
        for place, (one, text) in enumerate(said)
    ]
    other = {"message": {"role": "user", "content": "Else?"}, "sampled": False, "parent": 2}
    task = {"type": "Talk", "data": {"idx": 0, "prompt": "2+2?"}, "key": "k"}
    rewards = {"right": {"score": 1.0, "weight": 1.0}}
    played = {
        "task": task,
        "agent": {"trainable": True},
        "nodes": [*nodes, other],
        "rewards": rewards,
    }
    row = {"env": {"id": "user-sim+talk"}, "task": task, "traces": [{**played, **trace}]}
    return write_lines(path, [row])


def test_turns_of_verifiers(tmp_path):
    """The messages before the last reply are its prompt; its gold is the task with them, of the set's name."""
    [line] = imported(write_turns(tmp_path / "traces.jsonl"), kind="verifiers")
    turns = [("system", "Be brief."), ("user", "2+2?"), ("assistant", "5"), ("user", "Sure?")]
    assert (line["text"], line["turns"]) == ("4", turns)
    assert line["question"] == "2+2?\n\n5\n\nSure?"
    assert line["gold"]["of"] == "verifiers:talk"
    entry = json.loads(line["gold"]["entry"])
    assert entry["data"] == {"idx": 0, "prompt": "2+2?"}
    assert [(one["message"]["content"], one["sampled"]) for one in entry["nodes"]] == [
        *(("Be brief.", False), ("2+2?", False), ("5", True), ("Sure?", False))
    ]
    for name, change in (
        ("empty", {"nodes": []}),
        ("failed", {"errors": [{"type": "ModelError"}]}),
    ):
        [line] = imported(write_turns(tmp_path / f"{name}.jsonl", **change), kind="verifiers")
        assert line["text"] is None
    with pytest.raises(
        BadInputError, match=r"turns\.3\.0: Input should be 'system', 'user' or 'assistant'"
    ):
        imported(write_turns(tmp_path / "tool.jsonl", role="tool"), kind="verifiers")
    with pytest.raises(BadInputError, match="holds no rollout"):
        imported(write_turns(tmp_path / "user.jsonl", agent={"trainable": False}), kind="verifiers")
