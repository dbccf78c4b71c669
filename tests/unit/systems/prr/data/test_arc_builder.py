"""ARC data folders: split of the pairs, versions, and offsets on the canvas."""

import itertools
import json
import math
import pathlib

import numpy as np
import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.grids import Grid
from pipeline_lib.problems.arc_grids import Challenge
from pipeline_lib.systems.prr.data.arc_builder import ArcOptions, build_arc
from pipeline_lib.systems.prr.data.arc_source import Subset, read_subset
from pipeline_lib.systems.prr.data.dataset_files import (
    PuzzleSet,
    read_identifiers,
    read_set,
    read_test_puzzles,
)
from pipeline_lib.systems.prr.data.grids import (
    Augmentation,
    array_to_grid,
    crop,
    encode,
    grid_to_array,
    parse_version,
)
from pipeline_lib.systems.prr.evaluation.arc_votes import resolve_inputs, restore_grid
from tests.unit.systems.prr.data.sample_sets import files_of
from tests.unit.systems.prr.sample_puzzles import (
    FILL,
    small_subsets,
    write_combined,
    write_repository,
)

GOLDEN = pathlib.Path(__file__).parents[4] / "golden" / "arc_toy.json"
TOY = ArcOptions(test_set="evaluation", num_aug=2, seed=7, max_side=4)

PairOfGrids = tuple[Grid, Grid]
Placement = tuple[int, int, Grid]
PairOfPlacements = tuple[Placement, Placement]


@pytest.fixture
def toy(tmp_path) -> list[Subset]:
    return small_subsets(write_repository(tmp_path / "source"))


@pytest.fixture(scope="module")
def published(tmp_path_factory, data_folder) -> pathlib.Path:
    """Training and evaluation sets in ARC-1's layout, with one augmented version per puzzle."""
    output = tmp_path_factory.mktemp("published") / "arc"
    build_arc(subsets_of(data_folder), ArcOptions(test_set="evaluation", num_aug=1), output)
    return output


@pytest.fixture(scope="module")
def placements(published) -> dict[str, list[PairOfPlacements]]:
    """Offsets of the grids of every example, by split."""
    splits = {split: read_set(published, split) for split in ("train", "test")}
    return {
        split: [
            (placed(input_L), placed(label_L))
            for input_L, label_L in zip(data.inputs_NL, data.labels_NL, strict=True)
        ]
        for split, data in splits.items()
    }


def subsets_of(data_folder: pathlib.Path) -> list[Subset]:
    folder = data_folder / "arc" / "arc-agi-1"
    return [read_subset(folder, name) for name in ("training", "evaluation")]


def shown(data: PuzzleSet) -> dict[str, object]:
    """A split as text: canvases row by row, so that a golden file can be read."""
    side = math.isqrt(data.metadata.seq_len)

    def canvas(tokens_L: np.ndarray) -> str:
        rows = tokens_L.reshape(side, side).tolist()
        return " / ".join(" ".join(map(str, row)) for row in rows)

    return {
        "dataset": data.metadata.model_dump(mode="json"),
        "inputs": [canvas(row) for row in data.inputs_NL],
        "labels": [canvas(row) for row in data.labels_NL],
        "puzzle_identifiers": data.puzzle_identifiers_P.tolist(),
        "puzzle_indices": data.puzzle_indices_P1.tolist(),
        "group_indices": data.group_indices_G1.tolist(),
    }


def test_golden_toy_set(toy, tmp_path):
    """Identifiers, metadata and every canvas of a set of three puzzles, two versions each."""
    build_arc(toy, TOY, tmp_path / "out")
    built = {
        "identifiers": read_identifiers(tmp_path / "out"),
        "train": shown(read_set(tmp_path / "out", "train")),
        "test": shown(read_set(tmp_path / "out", "test")),
    }
    assert built == json.loads(GOLDEN.read_text("utf-8"))


def pairs_of(puzzle: Challenge, *, is_test: bool) -> tuple[set[PairOfGrids], set[PairOfGrids]]:
    """Training pairs and test pairs of a puzzle."""
    demonstrations = {(pair.input, pair.output) for pair in puzzle.train}
    tests = {(pair.input, pair.output) for pair in puzzle.test}
    return (demonstrations, tests) if is_test else (demonstrations | tests, set())


def placed(tokens_L: np.ndarray) -> Placement:
    """Top, left and grid of a canvas that holds one rectangle of colours, and nothing else."""
    side = math.isqrt(len(tokens_L))
    rows, columns = np.nonzero(tokens_L.reshape(side, side) > 1)
    top, left = int(rows.min()), int(columns.min())
    part = tokens_L.reshape(side, side)[top : rows.max() + 1, left : columns.max() + 1]
    colours = (part - 2).astype(np.uint8)
    expected = encode(colours, side=side, top=top, left=left)
    np.testing.assert_array_equal(tokens_L, expected)
    return top, left, array_to_grid(colours)


def undone(name: str, grid: Grid) -> Grid:
    _, augmentation = parse_version(name)
    return array_to_grid(augmentation.undo(grid_to_array(grid)))


def test_every_example_is_a_version_of_its_pair(published, placements, data_folder):
    """After inverting the augmentation each example is a pair of its split.

    All of them occur: in each version of each puzzle, every pair exactly once.
    """
    names = read_identifiers(published)
    expected = {
        puzzle.id: pairs_of(puzzle, is_test=subset.name == "evaluation")
        for subset in subsets_of(data_folder)
        for puzzle in subset.puzzles
    }
    # 40853293 repeats the test pair of 070dd51e, which is asked.
    expected["40853293"][0].difference_update(expected["070dd51e"][1])
    for place, split in enumerate(("train", "test")):
        data = read_set(published, split)
        ends = itertools.pairwise(data.puzzle_indices_P1)
        found = {
            names[i]: range(*one) for i, one in zip(data.puzzle_identifiers_P, ends, strict=True)
        }
        for name, examples in found.items():
            pairs = [
                tuple(undone(name, grid) for _, _, grid in placements[split][n]) for n in examples
            ]
            of_puzzle = expected[parse_version(name)[0]][place]
            assert set(pairs) == of_puzzle
            assert len(pairs) == len(of_puzzle)
        assert {parse_version(name)[0] for name in found} == {
            puzzle_id for puzzle_id, of_one in expected.items() if of_one[place]
        }


def test_only_training_examples_are_translated(published, placements):
    """Test grids and at least one example per training puzzle are at offset 0; the others vary.

    Input and output of an example have the same offset.
    """
    corners = {place[:2] for pair in placements["test"] for place in pair}
    assert corners == {(0, 0)}
    assert all(asked[:2] == answer[:2] for asked, answer in placements["train"])
    places = [asked[:2] for asked, _ in placements["train"]]
    starts = read_set(published, "train").puzzle_indices_P1
    assert all((0, 0) in places[a:b] for a, b in itertools.pairwise(starts))
    # Of up to 900 offsets; a made data set has few examples.
    assert len(set(places)) > min(200, len(places) // 4)


def test_versions_differ_and_the_original_is_first(published, placements):
    """Each group starts with the original puzzle; its versions are distinct."""
    names, train = read_identifiers(published), read_set(published, "train")
    assert names[0] == "<blank>"
    assert len(set(names)) == len(names)
    shown_by: dict[int, set[PairOfGrids]] = {}
    for split, data in (("train", train), ("test", read_set(published, "test"))):
        identifiers = data.example_identifiers.tolist()
        for identifier, (asked, answer) in zip(identifiers, placements[split], strict=True):
            shown_by.setdefault(identifier, set()).add((asked[2], answer[2]))
    for first, last in itertools.pairwise(train.group_indices_G1):
        identifiers = train.puzzle_identifiers_P[first:last].tolist()
        versions = [parse_version(names[identifier]) for identifier in identifiers]
        assert versions[0][1] == Augmentation()
        assert len({puzzle for puzzle, _ in versions}) == 1
        assert len({frozenset(shown_by[identifier]) for identifier in identifiers}) == len(versions)
    assert train.puzzle_identifiers_P.tolist() == list(range(1, len(names)))


def test_votes_find_their_test_inputs(published, data_folder):
    """Every test example resolves to a test input of its puzzle, in order."""
    test, puzzles = read_set(published, "test"), read_test_puzzles(published)
    asked = resolve_inputs(test, read_identifiers(published), puzzles)
    of_puzzles = [len(puzzle.test) for puzzle in subsets_of(data_folder)[1].puzzles]
    assert len({one for one, _ in asked}) == sum(of_puzzles)
    for (one, version), label_L in zip(asked, test.labels_NL, strict=True):
        assert restore_grid(label_L, version) == puzzles[one.puzzle_id].test[one.index].output


def test_few_colours_have_few_versions(tmp_path):
    """A single black cell is invariant, so the puzzle has no further version."""
    pair = {"input": [[0]], "output": [[0]]}
    root = write_repository(
        tmp_path / "source",
        {"evaluation": {"a": {"train": [pair], "test": [pair | {"output": [[0, 0]]}]}}},
    )
    subsets = [read_subset(root, "evaluation")]
    build_arc(subsets, ArcOptions(test_set="evaluation", num_aug=50), tmp_path / "out")
    # 0 0 may be horizontal or vertical: one more version.
    assert len(read_identifiers(tmp_path / "out")) == 1 + 2


def test_the_same_data_from_both_layouts_and_every_time(toy, tmp_path):
    """Both layouts give identical files, manifest included; another seed gives other versions."""
    combined = small_subsets(write_combined(tmp_path / "combined"))
    for name, subsets in (("a", toy), ("b", toy), ("c", combined)):
        build_arc(subsets, TOY, tmp_path / name)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b") == files_of(tmp_path / "c")
    build_arc(toy, ArcOptions(test_set="evaluation", num_aug=2, seed=8, max_side=4), tmp_path / "d")
    assert read_identifiers(tmp_path / "a") != read_identifiers(tmp_path / "d")


def test_versions_do_not_depend_on_other_puzzles(toy, tmp_path):
    """Removing a puzzle leaves the versions of the others unchanged."""
    build_arc(toy, TOY, tmp_path / "all")
    fewer = [Subset(name="training", puzzles=toy[0].puzzles[1:]), toy[1]]
    build_arc(fewer, TOY, tmp_path / "fewer")
    names = [name for name in read_identifiers(tmp_path / "all") if not name.startswith("fill")]
    assert names == read_identifiers(tmp_path / "fewer")


def test_large_puzzles_are_skipped(tmp_path, toy):
    """On 3 x 3, double, whose output is 4 wide, does not fit; mirror and fill do."""
    manifest = build_arc(
        [*toy, small(tmp_path)],
        ArcOptions(test_set="small", num_aug=0, max_side=3),
        tmp_path / "out",
    )
    assert manifest.counts["puzzles_left_out_as_too_large"] == 1
    assert read_identifiers(tmp_path / "out") == ["<blank>", "fill", "mirror", "one"]
    assert read_set(tmp_path / "out", "train").metadata.seq_len == 9


def small(tmp_path: pathlib.Path, **changes: object) -> Subset:
    pair = {"input": [[1]], "output": [[2]]}
    puzzle = {"train": [pair], "test": [{"input": [[3]], "output": [[4]]}], **changes}
    return read_subset(write_repository(tmp_path / "more", {"small": {"one": puzzle}}), "small")


def test_repeats_of_test_pairs_are_not_trained_on(tmp_path, toy):
    """A demonstration equal to a test pair of another puzzle is dropped."""
    repeat = small(tmp_path, train=[FILL["test"][0], {"input": [[1]], "output": [[2]]}])
    subsets = [Subset(name="evaluation", puzzles=toy[0].puzzles), repeat]
    manifest = build_arc(subsets, ArcOptions(test_set="evaluation", num_aug=0), tmp_path / "out")
    assert manifest.counts["repeats_of_test_pairs_left_out"] == 1
    learnt = [crop(tokens_L) for tokens_L in read_set(tmp_path / "out", "train").inputs_NL]
    assert ((5, 0, 0),) not in learnt


@pytest.mark.parametrize(("data", "shared"), [("synthetic_data", 2), ("reference_data", 376)])
def test_arc_2_training_never_meets_arc_1_evaluation(request, tmp_path, data, shared):
    """376 of the 400 public test puzzles (2 of the 2 made ones) overlap; nothing is written."""
    arc = request.getfixturevalue(data) / "arc"
    subsets = [read_subset(arc, name) for name in ("arc-agi-2/training", "arc-agi-1/evaluation")]
    with pytest.raises(BadInputError) as error:
        build_arc(subsets, ArcOptions(test_set="arc-agi-1/evaluation"), tmp_path / "out")
    assert str(error.value).startswith(
        f"{shared} puzzles of subset 'arc-agi-2/training' are also in 'arc-agi-1/evaluation'"
    )
    assert "would leak the test set" in str(error.value)
    assert not (tmp_path / "out").exists()


def test_other_refusals(toy, tmp_path):
    """An absent test set, a duplicate puzzle, and a training pair without output are refused."""
    with pytest.raises(
        BadInputError, match="the test set 'public' is not among the subsets training"
    ):
        build_arc(toy, ArcOptions(test_set="public"), tmp_path / "out")
    twice = [*toy, Subset(name="again", puzzles=toy[0].puzzles[:1])]
    with pytest.raises(BadInputError, match="1 puzzles of subset 'again' are also in 'training'"):
        build_arc(twice, TOY, tmp_path / "out")
    secret = small_subsets(write_combined(tmp_path / "secret", secret=("training",)))
    with pytest.raises(BadInputError, match="puzzle fill of subset 'training' has a test input"):
        build_arc(secret, TOY, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret", "source"]


def test_secret_outputs_have_no_label(tmp_path):
    """All labels of a secret test set are padding."""
    subsets = small_subsets(write_combined(tmp_path / "b", secret=("evaluation",)))
    build_arc(subsets, TOY, tmp_path / "out")
    test = read_set(tmp_path / "out", "test")
    assert test.inputs_NL.any()
    assert not test.labels_NL.any()
    (puzzle,) = read_test_puzzles(tmp_path / "out").values()
    assert [one.output for one in puzzle.test] == [None, None]


def test_a_finished_folder_is_reused(toy, tmp_path):
    """An identical call does nothing; other options build again."""
    output = tmp_path / "out"
    first = build_arc(toy, TOY, output)
    written = (output / "train" / "all__inputs.npy").stat().st_mtime_ns
    assert build_arc(toy, TOY, output) == first
    assert (output / "train" / "all__inputs.npy").stat().st_mtime_ns == written
    assert build_arc(toy, ArcOptions(test_set="evaluation", num_aug=1), output).key != first.key


def test_manifest_counts(toy, tmp_path):
    """fill has 1 + 1 pairs, mirror 2 + 1, double 2 + 2; three versions of each."""
    manifest = build_arc(toy, TOY, tmp_path / "out")
    assert manifest.counts == {
        "training_puzzles": 2,
        "training_demonstrations": 3,
        "training_test_inputs": 2,
        "evaluation_puzzles": 1,
        "evaluation_demonstrations": 2,
        "evaluation_test_inputs": 2,
        "puzzles_left_out_as_too_large": 0,
        "repeats_of_test_pairs_left_out": 0,
        "test_inputs_asked": 2,
        "train_examples": 3 * (2 + 3 + 2),
        "test_examples": 3 * 2,
        "identifiers": 9,
    }
