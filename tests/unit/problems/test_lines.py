"""Rows of one's own as problems, whatever their format and the names of their columns are."""

import datetime as dt
import json
import os
import pathlib
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.arc import ArcGold
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.hops import HopsGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.kinds.own import OwnGold
from pipeline_lib.kinds.program import ProgramGold
from pipeline_lib.kinds.table import KINDS
from pipeline_lib.kinds.task_sets import GymGold, TaskGold
from pipeline_lib.params.evaluate import EvaluationSet
from pipeline_lib.params.paths import ColumnParams, DataParams, PrepareParams
from pipeline_lib.params_file import load_params
from pipeline_lib.problems.loading import load_evaluation_set, load_splits
from pipeline_lib.problems.splits import evaluation_problems, make_splits
from pipeline_lib.records import Problem
from tests.flows.own_rows import ROWS, WRITERS, Row, write_csv, write_json_lines


def own(**form: object) -> DataParams:
    return DataParams(dataset="lines", **form)


RENAMED = own(columns=ColumnParams(question="task", answer="result"))


def read(path: pathlib.Path, form: DataParams | None = None) -> list[Problem]:
    return [one for problems in load_splits("lines", str(path), form).values() for one in problems]


def read_row(tmp_path: pathlib.Path, row: Row, **form: object) -> Problem:
    write_json_lines(tmp_path / "row.jsonl", [row])
    [problem] = read(tmp_path / "row.jsonl", own(**form))
    return problem


def test_formats_and_names_of_columns_give_equal_problems(tmp_path):
    """60 rows in five formats, in files under other names of columns, in another order: equal ids, questions, golds."""
    renamed = [{"task": r["question"], "result": r["answer"]} for r in ROWS]
    found = set()
    for name, write in WRITERS.items():
        for folder, rows, form in (("a", ROWS, None), ("b", renamed[::-1], RENAMED)):
            (tmp_path / folder).mkdir(exist_ok=True)
            write(tmp_path / folder / name, rows)
            problems = read(tmp_path / folder / name, form)
            found.add(frozenset((one.id, one.question, one.gold, one.solution) for one in problems))
    [of_all] = found
    assert len(of_all) == 60
    assert {gold for _, _, gold, _ in of_all} == {
        MathGold(answer=f"{n * (n + 1)}") for n in range(60)
    }


def test_own_ids_are_kept_and_made_ids_are_of_the_content(tmp_path):
    """A number counts as its text; another answer is another problem."""
    row = {"problem": "1+1?", "answer": 2}
    assert read_row(tmp_path, {**row, "unique_id": 7}).id == "7"
    made = [read_row(tmp_path, {**row, "answer": answer}).id for answer in (2, "2", "3")]
    assert made[0] == made[1] != made[2]
    assert read_row(tmp_path, {**row, "n": 7}, columns=ColumnParams(id="n")).id == "7"


GOLDS = {
    "math": ({"answer": "1/2"}, MathGold(answer="1/2")),
    "countdown": ({"numbers": [3, 5], "target": 8}, CountdownGold(numbers=(3, 5), target=8)),
    "hops": ({"entity": 5}, HopsGold(entity=5)),
    "code": (
        {"entry_point": "f", "tests": "assert f(1) == 1"},
        CodeGold(entry_point="f", tests="assert f(1) == 1"),
    ),
    "arc": ({"answer": [[1, 2], [3, 4]], "id": "p/0"}, ArcGold(output=((1, 2), (3, 4)))),
    "own": ({"answer": "abc"}, OwnGold(answer='"abc"')),
    "program": (
        {"tests": [{"input": "1", "output": "2"}]},
        ProgramGold(tests=(("1", "2"),)),
    ),
    "gym": (
        {"answer": {"of": "gym:gcd", "entry": "{}"}},
        GymGold(of="gym:gcd", entry="{}"),
    ),
    "verifiers": (
        {"answer": {"of": "verifiers:x", "entry": "{}"}},
        TaskGold(of="verifiers:x", entry="{}"),
    ),
}


@pytest.mark.parametrize("write", [write_json_lines, write_csv])
@pytest.mark.parametrize("by", ["column", "param"])
@pytest.mark.parametrize("kind", KINDS)
def test_golds_of_every_kind(tmp_path, kind, by, write):
    """By a column or for all rows; lists and numbers in a CSV are JSON."""
    fields, gold = GOLDS[kind]
    row = {"question": "What?", **fields, **({"kind": kind} if by == "column" else {})}
    if write is write_csv:
        row = {k: json.dumps(v) if isinstance(v, list | dict) else v for k, v in row.items()}
    name = "row.csv" if write is write_csv else "row.jsonl"
    write(tmp_path / name, [row])
    [problem] = read(tmp_path / name, own(kind=None if by == "column" else kind))
    assert problem.gold == gold


@pytest.mark.parametrize(
    ("fields", "gold"),
    [
        ({"tests": ["assert g(f(1))", "assert f(2)"]}, ("f", "assert g(f(1))\nassert f(2)")),
        ({"tests": "x = 1\nassert f(x) == 2"}, ("f", "x = 1\nassert f(x) == 2")),
        ({"tests": [{"input": "", "output": "1"}]}, None),
    ],
)
def test_rows_with_tests_are_code_or_programs(tmp_path, fields, gold):
    """Asserts name the function that all of them call; pairs of input and output are a program's."""
    found = read_row(tmp_path, {"prompt": "Write it.", **fields}).gold
    assert found == (
        CodeGold(entry_point=gold[0], tests=gold[1]) if gold else ProgramGold(tests=(("", "1"),))
    )


@pytest.mark.parametrize(
    ("fields", "answer", "solution"),
    [
        ({"answer": "So 3.\n#### 3"}, "3", "So 3.\n#### 3"),
        ({"answer": " 3 ", "solution": "So 3."}, "3", "So 3."),
        ({"solution": "It is $\\boxed{3}$."}, "3", "It is $\\boxed{3}$."),
        ({"solution": "So 3.\n#### 3"}, "3", "So 3.\n#### 3"),
        ({"gold": 3}, "3", None),
    ],
)
def test_where_an_answer_of_mathematics_is(tmp_path, fields, answer, solution):
    """In its column, behind ####, or in the box of a solution."""
    problem = read_row(tmp_path, {"question": "1+2?", **fields})
    assert (problem.gold, problem.solution) == (MathGold(answer=answer), solution)


def test_messages_and_a_system_prompt(tmp_path):
    """A system prompt is of the params or of the messages; one message alone is a plain question."""
    asked = {"role": "user", "content": "1+1?"}
    system = {"role": "system", "content": "Own."}
    plain = read_row(tmp_path, {"question": "1+1?", "answer": "2"})
    alone = read_row(tmp_path, {"prompt": [asked], "answer": "2"})
    assert (alone.id, alone.question, alone.turns) == (plain.id, "1+1?", ())
    given = read_row(tmp_path, {"messages": [system, asked], "answer": "2"}, system="Brief.")
    assert (given.question, given.turns) == ("1+1?", (("system", "Own."), ("user", "1+1?")))
    assert given.id != plain.id
    from_params = read_row(tmp_path, {"question": "1+1?", "answer": "2"}, system="Brief.")
    assert from_params.turns == (("system", "Brief."), ("user", "1+1?"))
    named = own(columns=ColumnParams(messages="chat"))
    write_csv(tmp_path / "chat.csv", [{"chat": json.dumps([system, asked]), "answer": "2"}])
    assert read(tmp_path / "chat.csv", named)[0].turns == given.turns


def test_a_question_goes_before_messages_which_travel(tmp_path):
    """Published sets have the answered conversation beside the question."""
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "2"}]
    problem = read_row(tmp_path, {"problem": "1+1?", "answer": "2", "messages": messages})
    assert (problem.question, problem.turns) == ("1+1?", ())
    assert problem.columns == {"messages": messages}


def test_further_columns_are_json_values(tmp_path):
    """Dates are texts, empty cells are left out, bytes are refused."""
    row = {
        "question": "1+1?",
        "answer": "2",
        "day": dt.date(2020, 1, 2),
        "none": None,
        "n": {"a": [1]},
    }
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "rows.parquet")
    assert read(tmp_path / "rows.parquet")[0].columns == {"day": "2020-01-02", "n": {"a": [1]}}
    pq.write_table(pa.Table.from_pylist([row | {"image": b"x"}]), tmp_path / "rows.parquet")
    with pytest.raises(BadInputError, match=r"parquet:1: 'image': no JSON value \(bytes\)"):
        read(tmp_path / "rows.parquet")


def test_a_single_file_is_divided_by_the_seed(tmp_path):
    """40 and 20 of 60 rows and a repeat, which is counted: equal for equal seeds, in any order, without an overlap."""
    drawn = {}
    for name, rows, seed in (("a", [*ROWS, ROWS[7]], 7), ("b", ROWS[::-1], 7), ("c", ROWS, 8)):
        write_json_lines(tmp_path / f"{name}.jsonl", rows)
        params = PrepareParams(
            dataset="lines",
            source=str(tmp_path / f"{name}.jsonl"),
            train_problems=40,
            test_problems=20,
        )
        splits = make_splits(params, seed=seed, gold_problem=lambda _: None)
        drawn[name] = [[one.id for one in some] for some in (splits.train, splits.test)]
        assert splits.report.duplicates == (name == "a")
        assert splits.report.drawn == {"train": 40, "test": 20, "bootstrap": 0}
        assert len({*drawn[name][0], *drawn[name][1]}) == 60
    assert drawn["a"] == drawn["b"] != drawn["c"]


def test_evaluation_sets_of_ones_own(tmp_path):
    """The test split, a repeat once; the columns are settings of the set."""
    rows = [{"task": f"{n}+1?", "result": n + 1} for n in (1, 2, 1)]
    write_json_lines(tmp_path / "test.jsonl", rows)
    write_json_lines(tmp_path / "train.jsonl", [{"task": "9+1?", "result": 10}])
    assert len(load_evaluation_set("lines", str(tmp_path), RENAMED)) == 2
    one = {
        "dataset": "lines",
        "source": str(tmp_path),
        "columns": {"question": "task", "answer": "result"},
    }
    [params] = load_params(overrides=[f"evaluate.sets={json.dumps([one])}"]).evaluate.sets
    assert params == EvaluationSet.model_validate(one)
    problems, _ = evaluation_problems(params, seed=7, gold_problem=lambda _: None)
    assert {problem.question for problem in problems} == {"1+1?", "2+1?"}


def test_config_and_splits_of_a_hub_id(tmp_path):
    """The hub client, here on a local copy of a repository: OWNER/NAME:CONFIG, and names of its splits."""
    repository = tmp_path / "owner" / "name"
    repository.mkdir(parents=True)
    for name in ("train", "validation", "other"):
        row = {"question": f"{name}?", "answer": "2"}
        pq.write_table(pa.Table.from_pylist([row]), repository / f"{name}-0.parquet")
    files = [{"split": name, "path": f"{name}-0.parquet"} for name in ("train", "validation")]
    configs = [
        {"config_name": "main", "data_files": files},
        {"config_name": "else", "data_files": [{"split": "whole", "path": "other-0.parquet"}]},
    ]
    (repository / "README.md").write_text(f"---\nconfigs: {json.dumps(configs)}\n---\n", "utf-8")
    program = (
        "from pipeline_lib.params.paths import DataParams, SplitNames\n"
        "from pipeline_lib.problems.loading import load_splits\n"
        "form = DataParams(dataset='lines', splits=SplitNames(test='validation'))\n"
        "for source in ('owner/name:main', 'owner/name:else'):\n"
        "    found = load_splits('lines', source, form)\n"
        "    print({split: [one.question for one in some] for split, some in found.items()})\n"
    )
    # The client reads its settings once, when it is imported: hence another process. A folder of the
    # name is read in place of the hub.
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ
        | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "{'train': ['train?'], 'test': ['validation?']}",
        "{'train': ['other?']}",
    ]
