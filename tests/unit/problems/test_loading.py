"""Loading of data sets in their published layouts, and refusals."""

import itertools
import json
import pathlib
import subprocess
import sys

import pytest

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.errors import BadInputError
from pipeline_lib.params_file import load_params
from pipeline_lib.problems.loading import load_splits
from pipeline_lib.problems.table import DATA_SETS, check_data_set
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
    """A missing path is named with its param."""
    with pytest.raises(BadInputError, match=r"prepare\.source=.*/absent: no such folder"):
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
        "'answer': expected text or a finite number, got nan",
    ),
    ({"problem": " \n", "answer": "1"}, "'question': it is empty"),
    ({"problem": "1+1?"}, "'answer': missing"),
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
        check_data_set(name)
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
    assert "set prepare.source to that folder" in done.stdout
    assert done.stdout.count("\n") == 1
