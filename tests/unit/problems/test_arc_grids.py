"""ARC puzzles: one problem per test input, from folders as published."""

import json
import pathlib

import pytest
from hypothesis import example, given

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.arc import ArcGold, puzzle_input_of
from pipeline_lib.params.paths import PrepareParams
from pipeline_lib.problems.arc_grids import Puzzle, arc_problems, read_puzzle
from pipeline_lib.problems.data_set import RawRow, folder_rows
from pipeline_lib.problems.loading import load_splits
from pipeline_lib.problems.splits import make_splits
from pipeline_lib.verify.arc import judge
from tests.synthetic_data import ARC_COUNTS
from tests.unit.synthetic_grids import grids

# The rule: colours are mirrored left to right.
MIRROR = {
    "train": [
        {"input": [[1, 2]], "output": [[2, 1]]},
        {"input": [[3, 0, 0], [0, 4, 5]], "output": [[0, 0, 3], [5, 4, 0]]},
    ],
    "test": [
        {"input": [[6, 7], [8, 9]], "output": [[7, 6], [9, 8]]},
        {"input": [[5, 0]], "output": [[0, 5]]},
    ],
}


def row_of(puzzle: dict, **changes: object) -> RawRow:
    fields = {"id": "0a1d4ef5", **puzzle, **changes}
    return RawRow(fields=fields, where="training/0a1d4ef5.json", index=0)


def problems_of(puzzle: dict) -> list:
    return arc_problems(row_of(puzzle), id_prefix="arc-train", source="arc-agi-1")


def puzzle_of(colour: int, *, inputs: int = 1) -> dict:
    """A distinct puzzle per colour: a cell becomes that colour."""
    pairs = [{"input": [[colour, n]], "output": [[colour, colour]]} for n in range(inputs + 2)]
    return {"train": pairs[:2], "test": pairs[2:]}


def write(path: pathlib.Path, puzzle: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(puzzle))


def test_a_problem_per_test_input():
    """Two test inputs are two problems with the same demonstrations, each with its own gold."""
    first, second = problems_of(MIRROR)
    assert (first.id, second.id) == ("0a1d4ef5/0", "0a1d4ef5/1")
    assert first.gold == ArcGold(output=((7, 6), (9, 8)))
    assert second.gold == ArcGold(output=((0, 5),))
    assert (first.source, second.source) == ("arc-agi-1", "arc-agi-1")


def test_the_question_shows_the_pairs_and_the_test_input():
    """The question is the introduction, the pairs in order, and the test input."""
    introduction, *shown = problems_of(MIRROR)[0].question.split("\n\n")
    assert introduction.startswith("Each input grid becomes its output grid by the same rule.")
    assert shown == [
        "Input 1:\n1 2",
        "Output 1:\n2 1",
        "Input 2:\n3 0 0\n0 4 5",
        "Output 2:\n0 0 3\n5 4 0",
        "Test input:\n6 7\n8 9",
    ]


@given(grids(max_side=12))
@example(grid=((9,) * 30,) * 30)
def test_the_solution_is_what_the_verifier_asks_for(grid):
    """For any output the worked solution is strictly right."""
    pair = {"input": [[0]], "output": grid}
    (problem,) = problems_of({"train": [pair], "test": [pair]})
    assert judge(problem.gold, problem.solution).strict


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"test": None}, "'test': Input should be a valid"),
        ({"test": []}, "'test': Tuple should have at least 1 item"),
        ({"train": [{"input": [[1]]}]}, "'train.0.output': Field required"),
        ({"test": [{"input": [[1]]}]}, "'test.0.output': Field required"),
        (
            {"train": [{"input": [[1]], "output": [[1, 2], [3]]}]},
            "'train.0.output': row 2 has 1 cells, row 1 has 2",
        ),
        ({"test": [{"input": [[1]], "output": [[11]]}]}, "'test.0.output': row 1 holds 11"),
        ({"id": None}, "'id': it is empty"),
    ],
)
def test_a_broken_puzzle_is_named(changes: dict, complaint: str):
    """The error has file, place and reason."""
    with pytest.raises(BadInputError) as error:
        read_puzzle(row_of(MIRROR, **changes), Puzzle)
    assert str(error.value).startswith(f"training/0a1d4ef5.json: {complaint}")


def test_folders_as_published(tmp_path: pathlib.Path):
    """The training folder is the train split, the evaluation folder the test split."""
    write(tmp_path / "arc-x" / "training" / "00000001.json", MIRROR)
    write(tmp_path / "arc-x" / "evaluation" / "00000002.json", puzzle_of(2) | {"name": "two"})
    (tmp_path / "arc-x" / "training.txt").write_text("00000001\n")
    splits = load_splits("arc", str(tmp_path / "arc-x"))
    ids = {split: [problem.id for problem in problems] for split, problems in splits.items()}
    assert ids == {"train": ["00000001/0", "00000001/1"], "test": ["00000002/0"]}
    assert {problem.source for problem in splits["train"]} == {"arc-x"}


def test_concepts_are_one_split(tmp_path: pathlib.Path):
    """ConceptARC has a folder per concept; one concept can be given alone."""
    write(tmp_path / "corpus" / "Copy" / "Copy1.json", puzzle_of(1))
    write(tmp_path / "corpus" / "Order" / "Order1.json", puzzle_of(2))
    write(tmp_path / "MinimalTasks" / "CopyMinimal.json", puzzle_of(3))

    def ids(folder: pathlib.Path) -> list[str]:
        return [problem.id for problem in load_splits("concept-arc", str(folder))["test"]]

    assert ids(tmp_path) == ["Copy1/0", "Order1/0"]
    assert ids(tmp_path / "corpus" / "Order") == ["Order1/0"]
    assert ids(tmp_path / "MinimalTasks") == ["CopyMinimal/0"]


def test_editions_cannot_be_mixed(tmp_path: pathlib.Path):
    """A puzzle in both folders, as with ARC-AGI-2's training and ARC-AGI-1's evaluation: refused."""
    write(tmp_path / "training" / "00000001.json", puzzle_of(1))
    write(tmp_path / "evaluation" / "00000001.json", puzzle_of(1))
    with pytest.raises(BadInputError, match=r"'00000001/0' is also at .*training.00000001\.json"):
        load_splits("arc", str(tmp_path))


def test_no_puzzle_is_on_both_sides(tmp_path: pathlib.Path):
    """One split is divided between puzzles: train and test share no puzzle."""
    for colour in range(10):
        write(tmp_path / f"p{colour}.json", puzzle_of(colour, inputs=3))
    for seed in range(5):
        params = PrepareParams(
            dataset="concept-arc", source=str(tmp_path), train_problems=22, test_problems=8
        )
        splits = make_splits(params, seed=seed, gold_problem=lambda _: None)
        sides = [{puzzle_input_of(p.id).puzzle_id for p in s} for s in (splits.train, splits.test)]
        # 8 test inputs have room for two whole puzzles of 3; 22 train problems begin with 7 more.
        assert (len(splits.test), len(splits.train)) == (6, 22)
        assert (len(sides[0]), len(sides[1])) == (8, 2)
        assert not sides[0] & sides[1]


def test_a_known_repeat_leaves_the_train_split(tmp_path: pathlib.Path):
    """The publisher's known repeat is removed and counted; any other repeat is an error."""
    write(tmp_path / "training" / "40853293.json", puzzle_of(1))
    write(tmp_path / "training" / "00000002.json", puzzle_of(2))
    write(tmp_path / "evaluation" / "070dd51e.json", puzzle_of(1))
    params = PrepareParams(dataset="arc", source=str(tmp_path))
    splits = make_splits(params, seed=7, gold_problem=lambda _: None)
    assert [problem.id for problem in splits.train] == ["00000002/0"]
    assert splits.report.duplicates == 1
    write(tmp_path / "evaluation" / "00000003.json", puzzle_of(2))
    with pytest.raises(BadInputError, match=r"00000002/0 at .* is 00000003/0 at"):
        make_splits(params, seed=7, gold_problem=lambda _: None)


@pytest.mark.parametrize(
    ("folder", "puzzles", "demonstrations", "test_inputs"),
    [
        ("arc-agi-1/training", 400, 1302, 416),
        ("arc-agi-1/evaluation", 400, 1363, 419),
        ("arc-agi-2/training", 1000, 3232, 1076),
        ("arc-agi-2/evaluation", 120, 359, 167),
        ("concept-arc/corpus/*", 160, 427, 480),
        ("concept-arc/MinimalTasks", 16, 46, 48),
    ],
)
def test_reference_counts(
    reference_data: pathlib.Path, folder: str, puzzles: int, demonstrations: int, test_inputs: int
):
    """Every published file is a puzzle, and no pair is lost."""
    found = [
        read_puzzle(row, Puzzle)
        for row in folder_rows(reference_data / "arc", [f"{folder}/*.json"])
    ]
    assert len({puzzle.id for puzzle in found}) == len(found) == puzzles
    assert sum(len(puzzle.train) for puzzle in found) == demonstrations
    assert sum(len(puzzle.test) for puzzle in found) == test_inputs


@pytest.mark.parametrize("folder", ARC_COUNTS)
def test_counts(synthetic_data: pathlib.Path, folder: str):
    """The same for the small synthetic puzzles."""
    pattern = f"{folder}/*/*.json" if folder.endswith("corpus") else f"{folder}/*.json"
    found = [read_puzzle(row, Puzzle) for row in folder_rows(synthetic_data / "arc", [pattern])]
    pairs = sum(len(puzzle.train) for puzzle in found), sum(len(puzzle.test) for puzzle in found)
    assert (len({puzzle.id for puzzle in found}), *pairs) == ARC_COUNTS[folder]


@pytest.mark.parametrize(
    ("data", "loaded", "train"),
    [
        ("synthetic_data", {"train": 4, "test": 3}, 3),
        ("reference_data", {"train": 416, "test": 419}, 415),
    ],
)
def test_the_published_repeat_is_removed(request, data: str, loaded: dict, train: int):
    """ARC-AGI-1 holds one puzzle in both folders, under two ids: it is tested, not trained on."""
    source = request.getfixturevalue(data) / "arc" / "arc-agi-1"
    params = PrepareParams(dataset="arc", source=str(source), test_problems=loaded["test"])
    splits = make_splits(params, seed=7, gold_problem=lambda _: None)
    assert splits.report.loaded == loaded
    assert splits.report.drawn == {"test": loaded["test"], "train": train, "bootstrap": 0}
    assert splits.report.duplicates == 1
    assert "40853293/0" not in {problem.id for problem in splits.train}
    assert splits.report.overlap.touched_test == 0
