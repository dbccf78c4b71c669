"""Data folders: bytes, resume, seals and bad input."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.apr import AprDataParams, ThreadSearchParams
from pipeline_lib.params.paths import CountdownParams
from pipeline_lib.store import shards
from pipeline_lib.systems.apr.countdown.tokens import count_tokens
from pipeline_lib.systems.apr.countdown.traces import trace_rows
from pipeline_lib.systems.apr.data_folder import (
    check_data,
    generate_data,
    problem_file,
    read_settings,
    traces_folder,
)
from pipeline_lib.systems.apr.problem_lines import read_problems
from tests.unit.systems.apr.learned_model import SMALL_DATA


@pytest.fixture
def data(small_data, tmp_path) -> pathlib.Path:
    """A copy, to be changed."""
    return shutil.copytree(small_data, tmp_path / "copy")


def files_of(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_workers_change_no_byte(data, tmp_path):
    """One process here and four others write the same files."""
    generate_data(SMALL_DATA, tmp_path / "data", seed=3, workers=4)
    assert files_of(tmp_path / "data") == files_of(data)


def test_splits_are_disjoint(data):
    """No problem is in two splits, and the numbers of test problems are in no other split."""
    problems = {
        split: read_problems(problem_file(data, split)) for split in ("train", "valid", "test")
    }
    assert {split: len(some) for split, some in problems.items()} == {
        "train": 40,
        "valid": 4,
        "test": 4,
    }
    keys = [
        (problem.gold.numbers, problem.gold.target)
        for some in problems.values()
        for problem in some
    ]
    assert len(set(keys)) == len(keys)
    held_out = {problem.gold.numbers for problem in problems["test"]}
    assert not held_out & {p.gold.numbers for p in problems["train"] + problems["valid"]}


def test_rows_have_the_columns_of_the_format(data):
    """A row a sequence, for the training problems in order."""
    names = [problem.id for problem in read_problems(problem_file(data, "train"))]
    for kind in ("parallel", "serial"):
        rows = shards.read_table(traces_folder(data, kind))
        assert list(dict.fromkeys(row["problem_id"] for row in rows)) == names
        assert set(rows[0]) == {
            "problem_id",
            "round",
            "role",
            "child",
            "prefix",
            "output",
            "solved",
            "condition",
        }


def test_the_condition_is_the_actual_number_of_children(data):
    """Below the drawn beam where a problem has fewer operations; children have no condition."""
    rows = shards.read_table(traces_folder(data, "parallel"))
    for problem in {row["problem_id"] for row in rows}:
        own = [row for row in rows if row["problem_id"] == problem]
        children = [row for row in own if row["role"] == "child"]
        parents = [row["condition"] for row in own if row["role"] == "parent"]
        assert parents == [f"Sub Call Budget: {len(children)} "] * 2
        assert {row["condition"] for row in children} == {""}


def test_a_trace_without_a_spawn_has_no_condition():
    """With a beam of 1 a published search spawns nothing; 0 is not a number of children to ask for."""
    params = AprDataParams(
        style="published",
        parallel=ThreadSearchParams(beam_low=1, beam_high=1, sub_beam=1, branch=1.0),
    )
    gold = CountdownGold(numbers=(3, 5, 12), target=20)
    rows = trace_rows("p", gold, "parallel", params, seed=1)
    assert [(row["role"], row["condition"]) for row in rows] == [("parent", "")]


def test_a_token_budget_is_the_next_bin(data):
    """A multiple of 32 that the sequence fits, and by less than 32."""
    for row in shards.read_table(traces_folder(data, "serial")):
        budget = int(row["condition"].removeprefix("Token Budget: "))
        tokens = count_tokens(row["prefix"] + row["output"], num_numbers=3) + 1
        assert budget % 32 == 0
        assert 0 <= budget - tokens < 32


def test_a_finished_folder_is_reused(data):
    """The second call writes nothing; a lost shard is written again."""
    part = traces_folder(data, "serial") / "part-00001.parquet"
    times = {path: path.stat().st_mtime_ns for path in data.rglob("*") if path.is_file()}
    before = generate_data(SMALL_DATA, data, seed=3, workers=1)
    assert {path: path.stat().st_mtime_ns for path in times} == times
    part.unlink()
    assert generate_data(SMALL_DATA, data, seed=3, workers=1) == before
    assert part.is_file()


def test_a_killed_command_continues(tmp_path):
    """SIGKILL after the first shard: the same call keeps that shard, and ends with an unbroken run's bytes."""
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    params = SMALL_DATA.model_copy(update={"train_problems": 300, "shard_size": 2})
    script = (
        "import pathlib, sys\n"
        "from pipeline_lib.systems.apr.data_folder import DataSettings, generate_data\n"
        "settings = DataSettings.model_validate_json(sys.argv[1])\n"
        "generate_data(settings.data, pathlib.Path(sys.argv[2]), seed=settings.seed, workers=1)\n"
    )
    settings = json.dumps({"data": params.model_dump(mode="json"), "seed": 3})
    process = subprocess.Popen([sys.executable, "-c", script, settings, str(folder)])
    first = traces_folder(folder, "parallel") / "part-00000.manifest.json"
    while not first.is_file() and process.poll() is None:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folder / "manifest.json").exists()
    with pytest.raises(BadInputError, match="no finished data"):
        check_data(folder)
    written = first.stat().st_mtime_ns
    # SIGKILL may or may not have met a write; this one did.
    (first.parent / ".part-00001.parquet.1.part").write_bytes(b"PAR1")
    generate_data(params, folder, seed=3, workers=1)
    assert first.stat().st_mtime_ns == written
    generate_data(params, whole, seed=3, workers=1)
    assert files_of(folder) == files_of(whole)


def test_other_files_are_not_overwritten(tmp_path):
    """A folder that holds something else is refused."""
    (tmp_path / "notes.txt").write_text("keep")
    with pytest.raises(BadInputError, match="holds other files"):
        generate_data(SMALL_DATA, tmp_path, seed=3, workers=1)


def test_too_few_problems_leave_the_folder_as_it_was(data, tmp_path):
    """Numbers 1 and 2 make few problems: an error, before anything is written."""
    narrow = SMALL_DATA.model_copy(
        update={"countdown": CountdownParams(high=2, target_low=3, target_high=4)}
    )
    with pytest.raises(BadInputError, match="distinct problems"):
        generate_data(narrow, tmp_path / "data", seed=3, workers=1)
    assert not (tmp_path / "data").exists()


def test_damage_is_noticed(data):
    """One byte of a shard."""
    part = traces_folder(data, "serial") / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    with pytest.raises(BadInputError, match="sha256 differs"):
        check_data(data)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "a", "numbers": [3, 5], "target": "x"}', "problems.jsonl:2: target"),
        ('{"id": "a", "numbers": [3], "target": 8}', "problems.jsonl:2: numbers"),
        ('{"id": "a", "numbers": [3, 5]}', "problems.jsonl:2: target"),
        (
            '{"id": "first", "numbers": [3, 5], "target": 8}',
            "problems.jsonl:2: id: 'first' is also at line 1",
        ),
        ("3,5=8", "problems.jsonl:2: not a JSON object"),
    ],
)
def test_a_malformed_problem_is_named_with_its_line(tmp_path, line, message):
    """File, line, field."""
    path = tmp_path / "problems.jsonl"
    path.write_text(f'{{"id": "first", "numbers": [3, 5], "target": 8}}\n{line}\n')
    with pytest.raises(BadInputError, match=message):
        read_problems(path)


def test_a_command_that_was_killed_in_its_problems_continues(tmp_path):
    """Before they were complete: the folder holds their unfinished folder alone."""
    unfinished = tmp_path / "data" / ".problems.fresh"
    unfinished.mkdir(parents=True)
    (unfinished / "test.jsonl").write_text("{}")
    generate_data(SMALL_DATA, tmp_path / "data", seed=3, workers=1)
    assert not unfinished.exists()
    assert check_data(tmp_path / "data")


@pytest.mark.parametrize("finished", [True, False])
def test_other_data_is_replaced_by_a_run_alone(tmp_path, finished):
    """Models were trained on it; finished or not, a command refuses it, and the stage of a run does not."""
    folder = tmp_path / "data"
    generate_data(SMALL_DATA, folder, seed=3, workers=1)
    if not finished:
        (folder / "manifest.json").unlink()
    before = files_of(folder)
    with pytest.raises(BadInputError, match="another seed"):
        generate_data(SMALL_DATA, folder, seed=4, workers=1)
    assert files_of(folder) == before
    generate_data(SMALL_DATA, folder, seed=4, workers=1, replaces=True)
    assert read_settings(folder).seed == 4
