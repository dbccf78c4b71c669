"""Loading of data sets in their published layouts, and refusals."""

import gzip
import itertools
import json
import pathlib
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import StrictInt, TypeAdapter

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import DataParams
from pipeline_lib.params_file import load_params
from pipeline_lib.problems.data_set import RawRow, folder_rows
from pipeline_lib.problems.loading import DATA_SETS, check_data_set, load_splits
from tests.synthetic_data import MATH_GOLDS, MBPP_FUNCTIONS

GSM8K = [
    {"question": "How many are one and one?", "answer": "#### 2"},
    {"question": "How many are two and two?", "answer": "#### 4"},
]


def write_lines(path: pathlib.Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("name", "folder", "own", "published"),
    [
        ("gsm8k", "gsm8k", {"train": 3, "test": 2}, {"train": 7473, "test": 1319}),
        ("math", "math500", {"test": len(MATH_GOLDS)}, {"test": 500}),
        ("aime", "aime24", {"test": 2}, {"test": 30}),
        ("aime", "aime25", {"test": 2}, {"test": 30}),
        ("aime", "aime26", {"test": 1}, {"test": 30}),
        ("hmmt", "hmmt25", {"test": 3}, {"test": 30}),
        ("humaneval", "humaneval", {"test": 2}, {"test": 164}),
        (
            *("mbpp", "mbpp", {"prompt": 1, "test": 2, "validation": 1, "train": 1}),
            {"prompt": 10, "test": 500, "validation": 90, "train": 374},
        ),
        ("arc", "arc/arc-agi-1", {"train": 4, "test": 3}, {"train": 416, "test": 419}),
        ("arc", "arc/arc-agi-2", {"train": 4, "test": 1}, {"train": 1076, "test": 167}),
        ("concept-arc", "arc/concept-arc", {"test": 4}, {"test": 480}),
    ],
)
@pytest.mark.parametrize("data", ["synthetic_data", "reference_data"])
def test_counts(request, data: str, name: str, folder: str, own: dict, published: dict):
    """Every row of our own and of published data becomes a problem of its official split, with a question."""
    splits = load_splits(name, str(request.getfixturevalue(data) / folder))
    sizes = published if data == "reference_data" else own
    assert {split: len(problems) for split, problems in splits.items()} == sizes
    assert all(problem.question.strip() for problems in splits.values() for problem in problems)


def test_golds_are_the_publishers(synthetic_data: pathlib.Path):
    """GSM8K: the number after ####, without commas; AIME: ``answer``; MBPP: the function of all asserts."""
    golds = {
        name: [one.gold for one in itertools.chain(*load_splits(name, str(folder)).values())]
        for name, folder in (
            ("gsm8k", synthetic_data / "gsm8k"),
            ("math", synthetic_data / "math500"),
            ("aime", synthetic_data / "aime25"),
            ("mbpp", synthetic_data / "mbpp"),
        )
    }
    assert [gold.answer for gold in golds["gsm8k"]] == ["83", "294", "120000", "29", "180"]
    assert [gold.answer for gold in golds["math"]] == MATH_GOLDS
    assert [gold.answer for gold in golds["aime"]] == ["033", "999"]
    assert [gold.entry_point for gold in golds["mbpp"]] == list(MBPP_FUNCTIONS.values())


def test_ids_follow_split_and_file_order(tmp_path: pathlib.Path):
    """Row n of a split without ids is problem n of it."""
    write_lines(tmp_path / "train.jsonl", GSM8K)
    write_lines(tmp_path / "test.jsonl", GSM8K[:1])
    ids = {
        split: [problem.id for problem in problems]
        for split, problems in load_splits("gsm8k", str(tmp_path)).items()
    }
    assert ids == {"train": ["gsm8k-train-0", "gsm8k-train-1"], "test": ["gsm8k-test-0"]}


def test_editions_of_a_contest_have_different_ids(tmp_path: pathlib.Path):
    """Ids of AIME differ between years."""
    for year in ("aime24", "aime25"):
        write_lines(tmp_path / year / "test.jsonl", [{"problem": "?", "answer": "1"}])
    ids = [load_splits("aime", str(tmp_path / year))["test"][0].id for year in ("aime24", "aime25")]
    assert ids == ["aime24-test-0", "aime25-test-0"]


def test_missing_folder_says_what_to_give(tmp_path: pathlib.Path):
    """A missing path is named."""
    with pytest.raises(BadInputError, match=r"source .*/absent: no such folder"):
        load_splits("gsm8k", str(tmp_path / "absent"))


def test_folder_of_something_else_lists_what_was_looked_for(tmp_path: pathlib.Path):
    """For a folder without files of the data set the error lists the file patterns."""
    with pytest.raises(BadInputError, match=r"no problems of humaneval; .*HumanEval\.jsonl"):
        load_splits("humaneval", str(tmp_path))


def test_empty_split_is_refused(tmp_path: pathlib.Path):
    """A file without rows is an error, not a data set of zero problems."""
    write_lines(tmp_path / "train.jsonl", GSM8K)
    write_lines(tmp_path / "test.jsonl", [])
    with pytest.raises(BadInputError, match="the test split of gsm8k is empty"):
        load_splits("gsm8k", str(tmp_path))


BAD_ROWS = [
    (
        {"problem": "1+1?", "answer": float("nan")},
        "'answer': expected a string or a finite number, got nan",
    ),
    ({"problem": " \n", "answer": "1"}, "'problem': it is empty"),
    ({"problem": "1+1?"}, "'answer or gold': missing"),
]


def test_all_bad_rows_are_named(tmp_path: pathlib.Path):
    """NaN is no answer, a question is not empty; each bad row is named in the one error."""
    good = {"problem": "1+1?", "answer": "2"}
    write_lines(tmp_path / "test.jsonl", [each for row, _ in BAD_ROWS for each in (good, row)])
    with pytest.raises(BadInputError) as caught:
        load_splits("math", str(tmp_path))
    named = str(caught.value).split(" | ")
    for number, line in enumerate(named):
        assert f"test.jsonl:{2 * number + 2}: {BAD_ROWS[number][1]}" in line
    assert len(named) == 3


def test_at_most_20_bad_rows_are_named(tmp_path: pathlib.Path):
    """Of 40 rows without an answer."""
    write_lines(tmp_path / "test.jsonl", [{"problem": f"{n}?"} for n in range(40)])
    with pytest.raises(BadInputError) as caught:
        load_splits("math", str(tmp_path))
    assert str(caught.value).count("missing") == 20


def test_repeated_id_names_both_places(tmp_path: pathlib.Path):
    """A repeated id, even in two splits, is refused with both lines."""
    row = {"problem": "?", "answer": "1", "unique_id": "algebra/1"}
    write_lines(tmp_path / "train.jsonl", [row])
    write_lines(tmp_path / "test.jsonl", [row])
    with pytest.raises(BadInputError, match=r"test\.jsonl:1: .*'algebra/1'.*train\.jsonl:1"):
        load_splits("math", str(tmp_path))


def test_param_names_a_generated_or_a_loaded_set():
    """`prepare.dataset` takes every name of the table and Countdown; another is refused in a line."""
    for name in ("countdown", *DATA_SETS):
        check_data_set(DataParams(dataset=name))
    with pytest.raises(
        BadInputError, match=r"'gsm' is unknown; did you mean 'gsm8k'\? there are countdown"
    ):
        load_params(overrides=["prepare.dataset=gsm"])


def test_names_of_data_sets_need_no_file_reader():
    """The command reads the table at its start, which pyarrow would slow down."""
    program = "import sys, pipeline_lib.params_file; print('pyarrow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_unreachable_hub_says_what_to_do():
    """Without a network a hub id ends in one line with the remedy, not in a client's traceback."""
    program = (
        "from pipeline_lib.errors import BadInputError\n"
        "from pipeline_lib.problems.loading import load_splits\n"
        "try:\n"
        "    load_splits('gsm8k', 'no-such-owner/no-such-set')\n"
        "except BadInputError as error:\n"
        "    print(error)\n"
    )
    # The client reads its offline switch once, when it is imported: hence another process.
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"},
        cwd=pathlib.Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("no-such-owner/no-such-set: neither a folder nor")
    assert "give that folder as the source" in done.stdout
    assert done.stdout.count("\n") == 1


ROWS = [{"question": "1+1?", "answer": "#### 2"}, {"question": "2+2?", "answer": "#### 4"}]


def row_of(**fields: object) -> RawRow:
    return RawRow(fields=fields, where="set.jsonl:7", index=6)


def test_formats_agree(tmp_path: pathlib.Path):
    """JSON lines, gzipped JSON lines and parquet give the same rows."""
    write_lines(tmp_path / "plain.jsonl", ROWS)
    (tmp_path / "packed.jsonl.gz").write_bytes(
        gzip.compress((tmp_path / "plain.jsonl").read_bytes())
    )
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "table.parquet")
    read = [
        [row.fields for row in folder_rows(tmp_path, [name])]
        for name in ("plain.jsonl", "packed.jsonl.gz", "table.parquet")
    ]
    assert read == [ROWS, ROWS, ROWS]


def test_a_json_file_is_a_row_known_by_its_name(tmp_path: pathlib.Path):
    """Each file is one row; the default id is its name."""
    (tmp_path / "b.json").write_text(json.dumps(ROWS[0], indent=2))
    (tmp_path / "a.json").write_text(json.dumps({"id": "own"}))
    rows = [*folder_rows(tmp_path, ["*.json"])]
    assert [row.fields for row in rows] == [{"id": "own"}, {"id": "b", **ROWS[0]}]
    assert rows[1].where == f"{tmp_path / 'b.json'}:1"


@pytest.mark.parametrize(
    ("content", "complaint"), [("[1]", "Input should be a valid dictionary"), ("{", "not JSON")]
)
def test_a_json_file_that_is_no_row_is_named(tmp_path: pathlib.Path, content: str, complaint: str):
    """The error names file and reason."""
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(BadInputError, match=rf"a\.json: .*{complaint}"):
        list(folder_rows(tmp_path, ["*.json"]))


def test_first_matching_pattern_wins(tmp_path: pathlib.Path):
    """Two copies of one split in a folder are not read twice."""
    write_lines(tmp_path / "test.jsonl", ROWS)
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "test-0.parquet")
    rows = folder_rows(tmp_path, ["test.jsonl", "test-*.parquet"])
    assert [row.where for row in rows] == [f"{tmp_path}/test.jsonl:{line}" for line in (1, 2)]


def test_parts_are_numbered_through(tmp_path: pathlib.Path):
    """The index runs over all files of a split: 2 rows and 2 rows give 0, 1, 2, 3."""
    for part in ("test-0.jsonl", "test-1.jsonl"):
        write_lines(tmp_path / part, ROWS)
    assert [row.index for row in folder_rows(tmp_path, ["test-*.jsonl"])] == [0, 1, 2, 3]


def test_no_file_is_none_but_no_row_is_empty(tmp_path: pathlib.Path):
    """A missing split is None, an empty one has no rows."""
    (tmp_path / "test.jsonl").touch()
    assert folder_rows(tmp_path, ["train.jsonl"]) is None
    assert list(folder_rows(tmp_path, ["test.jsonl"])) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.parquet", b"PAR1 and no more"),
        ("cut.jsonl", b'{"question": "1+1?"}\n{"quest'),
        # The bytes name the test, and workers must agree on its name: no time in them.
        ("cut.jsonl.gz", gzip.compress(b'{"question": "1+1?"}\n', mtime=0)[:-9]),
    ],
)
def test_broken_file_is_named(tmp_path: pathlib.Path, name: str, content: bytes):
    """A truncated file of any format is refused by name."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInputError, match=name):
        list(folder_rows(tmp_path, [name]))


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ({}, lambda row: row.text("answer")),
        ({"answer": None}, lambda row: row.text("answer")),
        ({"answer": ["4"]}, lambda row: row.text("answer")),
        ({"answer": True}, lambda row: row.text("answer")),
        ({"answer": "12"}, lambda row: row.read(TypeAdapter(StrictInt), "answer")),
        ({"answer": "assert f()"}, lambda row: row.read(TypeAdapter(list[str]), "answer")),
        ({"answer": [1]}, lambda row: row.read(TypeAdapter(list[str]), "answer")),
    ],
)
def test_unusable_value_names_place_and_key(fields: dict, read):
    """The error of an invalid value has file, line and key."""
    with pytest.raises(BadInputError, match=r"set\.jsonl:7: .*'answer'"):
        read(row_of(**fields))


def test_hub_client_reads_every_split(tmp_path: pathlib.Path):
    """The hub client, here on a local copy of a repository, gives the rows of each split."""
    repository = tmp_path / "repository"
    repository.mkdir()
    for split in ("train", "test"):
        pq.write_table(pa.Table.from_pylist(ROWS), repository / f"{split}-0.parquet")
    program = (
        "import json, sys\n"
        "from pipeline_lib.problems.data_set import hub_rows\n"
        "splits = hub_rows(sys.argv[1], config=None)\n"
        "print(json.dumps({s: [[r.where, r.fields] for r in rows] for s, rows in splits.items()}))\n"
    )
    # The client reads its settings once, when it is imported: hence another process.
    done = subprocess.run(
        [sys.executable, "-c", program, str(repository)],
        env={"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")},
        cwd=pathlib.Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    splits = json.loads(done.stdout)
    assert set(splits) == {"train", "test"}
    assert [fields for _, fields in splits["train"]] == ROWS
    assert splits["test"][1] == [f"{repository} test row 2", ROWS[1]]
