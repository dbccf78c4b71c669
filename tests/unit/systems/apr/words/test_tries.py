"""Threads of a task of one's own: traces from tries, a model from scratch, and an evaluation that joins with PaCoRe's."""

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.own import locks
from pipeline_lib.params_file import load_params
from pipeline_lib.store.shards import iter_shards, iter_table
from pipeline_lib.systems.apr.data_folder import traces_folder
from pipeline_lib.systems.apr.model_record import read_record
from pipeline_lib.systems.apr.stages import check_run
from pipeline_lib.systems.apr.work import data as data_stage
from pipeline_lib.systems.apr.work import evaluation, train
from pipeline_lib.systems.pacore.scratch import make_data
from pipeline_lib.systems.stage import Run

SIZES = [
    *("apr.data.train_problems=8", "apr.data.valid_problems=2", "apr.data.test_problems=3"),
    *("apr.model.hidden_size=16", "apr.model.feed_forward_size=16", "apr.model.num_layers=1"),
    *("apr.sft.tokens=3000", "apr.evaluate.samples=2", "execution.workers=1"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Data, both trainings and the evaluation."""
    params = load_params(profile="apr-locks", overrides=SIZES)
    found = Run(root=tmp_path_factory.mktemp("locks"), params=params)
    check_run(found, draws=True)
    data_stage.make_data(found)
    train.train(found)
    train.train_serial(found)
    evaluation.choose(found)
    evaluation.evaluate(found)
    return found


def traces(run, kind):
    found = {}
    for shard in iter_shards(traces_folder(run.workspace.apr.data, kind)):
        for row in shard:
            found.setdefault(row["problem_id"], []).append(row)
    return found


def test_a_child_tries_dials_of_its_lock_until_it_opens(run):
    """The parent names the locks, and answers with what its children found; the serial twin tries the same dials."""
    parallel, serial = traces(run, "parallel"), traces(run, "serial")
    assert len(parallel) == 8
    for name, rows in parallel.items():
        block, *children, last = rows
        assert block["output"] == "<spawn> A B C </spawn>"
        assert [one["role"] for one in children] == ["child"] * 3
        for lock, one in zip("ABC", children, strict=True):
            assert one["prefix"].startswith(f"{lock} {lock.lower()}1:")
            opening = " ".join(one["output"].split()[-6:])
            assert "!" in opening
            assert one["output"].count("!") == 1
            assert opening in last["output"]
        joined = last["prefix"].removeprefix(block["prefix"] + block["output"])
        assert joined.split() == ["<join>", *last["output"].split(), "</join>"]
        [whole] = serial[name]
        assert whole["output"] == " ".join(one["output"] for one in children)
        assert whole["prefix"] == block["prefix"]


def test_a_model_from_scratch_has_the_grammar_of_the_task(run):
    """So it draws threads without the task's file; its words are those of both kinds of traces."""
    record = read_record(run.workspace.apr.parallel)
    assert (record.style, record.grammar) == ("tries", locks.THREADS)
    rows = (run.workspace.apr.reports / "rollouts.jsonl").read_text("utf-8").splitlines()
    assert len(rows) == 2 * 3 * (1 + 2)
    vocabularies = {
        (folder / "tokenizer.json").read_text("utf-8")
        for folder in (run.workspace.apr.parallel, run.workspace.apr.serial)
    }
    assert len(vocabularies) == 1


def test_the_problems_are_those_of_pacore(run, tmp_path):
    """With their questions, by which `reasonloop frontier` joins evaluations."""
    sizes = ["pacore.scratch.train_problems=8", "pacore.scratch.test_problems=3"]
    other = Run(root=tmp_path, params=load_params(overrides=sizes))
    make_data(other)
    tables = (other.workspace.pacore.problems / "test", run.workspace.apr.reports / "problems")
    asked, stored = ([(row["question"], row["gold"]) for row in iter_table(one)] for one in tables)
    assert len(stored) == 3
    assert stored == asked


@pytest.mark.parametrize(
    ("threads", "message"),
    [
        ("", "THREADS"),
        ("THREADS = 3\n", "is no mapping of fields of PointerGrammar"),
        ('THREADS = {"parts": "x"}\n', "parts"),
        ('THREADS = {"part": "(x)(y)"}\n', "does not find the 3 parts of problem"),
    ],
)
def test_a_task_without_a_grammar_is_refused(threads, message, tmp_path):
    """In one line, before anything is trained."""
    path = tmp_path / "mine.py"
    path.write_text(
        f"from pipeline_lib.own.locks import PROMPT, answer, problems, verify\n{threads}", "utf-8"
    )
    overrides = [*SIZES, f"apr.data.task={path}"]
    found = Run(root=tmp_path, params=load_params(profile="apr-locks", overrides=overrides))
    with pytest.raises(BadInputError, match=message):
        data_stage.make_data(found)
