"""Data of one's own through `prepare`, and its columns and messages through the files of the loop by hand."""

from dataclasses import replace

from benchmarks.lib.recorded_paths import recorded_path, recorded_problem
from pipeline_lib.params.train import Method
from pipeline_lib.params_file import load_params
from pipeline_lib.records import Problem
from pipeline_lib.store import shards
from pipeline_lib.store.files import read_json, read_json_lines
from pipeline_lib.store.manifests import read_manifest
from pipeline_lib.systems.loop.by_hand.build import build_file
from pipeline_lib.systems.loop.prepare import prepare
from pipeline_lib.systems.stage import Run
from pipeline_lib.verify.lines import parse_line, path_line
from tests.flows.own_rows import ROWS, write_json_lines

COLUMNS = {"level": 3, "tags": ["a"]}
TURNS = (("system", "Be brief."), ("user", "Combine them."))


def test_rows_become_the_splits_of_a_run(tmp_path):
    """Sealed tables with columns and messages; another content of the same file makes other ones."""
    source = tmp_path / "rows.jsonl"
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}]
    rows = [*ROWS, {"prompt": asked, "answer": "2", "note": "odd"}]
    write_json_lines(source, rows)
    settings = ["dataset=lines", f"source={source}", "train_problems=40", "test_problems=20"]
    params = load_params(overrides=[f"prepare.{one}" for one in settings])
    run = Run(root=tmp_path, params=params)
    prepare(run)
    tables = [run.workspace.problems(split) for split in ("bootstrap", "train", "test")]
    problems = [Problem.from_row(row) for table in tables for row in shards.iter_table(table)]
    assert {one.question for one in problems} == {row.get("question", "1+1?") for row in rows}
    by_question = {one.question: one for one in problems}
    assert by_question["1+1?"].turns == (("system", "Be brief."), ("user", "1+1?"))
    assert by_question["1+1?"].columns == {"note": "odd"}
    assert by_question[ROWS[7]["question"]].columns == {"level": 1}
    report = read_json(run.workspace.problems_report)
    assert report["drawn"] == {"train": 40, "test": 20, "bootstrap": 1}
    before = read_manifest(tables[1])
    prepare(run)
    assert read_manifest(tables[1]) == before
    write_json_lines(source, [{**row, "level": 9} for row in rows])
    prepare(run)
    assert read_manifest(tables[1]).digest != before.digest


def test_columns_and_messages_go_from_paths_to_training_rows(tmp_path):
    """A line of `sample` and a row of `build` hold them; a problem without any has none of the keys."""
    plain, odd = recorded_problem(0), recorded_problem(1)
    odd = replace(odd, columns=COLUMNS, turns=TURNS)
    lines = [
        path_line(recorded_path(one, number, index, model="m"), one)
        for number, one in enumerate((plain, odd))
        for index in range(2)
    ]
    assert ["columns" in line for line in lines] == [False, False, True, True]
    write_json_lines(tmp_path / "paths.jsonl", lines)
    output = tmp_path / "rows.jsonl"
    build_file(tmp_path / "paths.jsonl", output, Method.GRPO, load_params())
    rows = {row["problem_id"]: row for row in read_json_lines(output)}
    read = {
        name: parse_line(row | {"text": None}, where="").problem() for name, row in rows.items()
    }
    assert (read[plain.id].columns, read[plain.id].turns) == ({}, ())
    assert (read[odd.id].columns, read[odd.id].turns) == (COLUMNS, TURNS)
    assert read[odd.id].gold == odd.gold
