"""`reasonloop prr`: puzzle data for latent branches, training, evaluation, pictures."""

import pathlib
import sys
from typing import Annotated

from cyclopts import Parameter, validators

from flows.cli.options import (
    AT_LEAST_ONE,
    AT_LEAST_ZERO,
    DEFAULT_PARAMS,
    Minutes,
    ModelFolder,
    ParamsOptions,
    seconds_of,
)
from flows.cli.progress import progress_bar
from flows.cli.tables import print_counts, print_evaluation
from flows.run.admission import check_trackers
from flows.run.ranks import run_ranks
from flows.run.terminal import console, say
from pipeline_lib.engines.gpus import visible_gpus
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.environment import environment
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.systems.prr.data import arc_builder, arc_source, synthetic
from pipeline_lib.systems.prr.data.boards import BoardOptions, Maze, Sudoku, build_boards
from pipeline_lib.systems.prr.data.grids import NUM_DIHEDRALS

Output = Annotated[
    pathlib.Path,
    Parameter(name="--output", help="Folder to write; an earlier build is replaced."),
]
Seed = Annotated[int, Parameter(help="Seed of augmentations and subsamples.")]
CsvFolder = Annotated[pathlib.Path, Parameter(help="Folder with train.csv and test.csv.")]
Subsample = Annotated[
    int | None,
    Parameter(help="Number of training boards to sample.", validator=AT_LEAST_ONE),
]


def build_arc(  # noqa: PLR0913 - the options of a command
    source: Annotated[
        pathlib.Path,
        Parameter(
            help="Folder with one folder of puzzles per subset, or Kaggle's combined files (or the "
            "prefix of their names)."
        ),
    ],
    /,
    *,
    output: Output,
    subsets: Annotated[
        tuple[str, ...],
        Parameter(
            consume_multiple=True,
            negative="",
            help="Subsets in SOURCE, or NAME=PATH for a subset in another folder.",
        ),
    ] = ("training", "evaluation"),
    test_set_name: Annotated[
        str,
        Parameter(
            help="Subset whose test inputs form the test split; test inputs of other subsets are trained on."
        ),
    ] = "evaluation",
    num_aug: Annotated[
        int,
        Parameter(
            help="Augmented versions per puzzle, besides the original.", validator=AT_LEAST_ZERO
        ),
    ] = 1000,
    seed: Seed = 42,
    max_side: Annotated[
        int,
        Parameter(
            help="Side of the canvas; puzzles with a larger grid are excluded.",
            validator=validators.Number(gte=1, lte=30),
        ),
    ] = 30,
) -> None:
    """Build ARC data, augmented by colour permutations, rotations, reflections and translations.

    The demonstrations of the test set's puzzles are trained on (the setting is transductive). Mixing
    ARC-AGI-2's training set with ARC-AGI-1's evaluation set as test set is refused.

    **Examples:**

        reasonloop prr build-arc ARC-AGI/data --output data/arc1 --num-aug 30
        reasonloop prr build-arc kaggle/combined/arc-agi --output data/arc1 --subsets training evaluation concept
        reasonloop prr build-arc arc-agi-2 --output data/arc2 --subsets training evaluation concept=concept-arc/corpus
    """
    options = arc_builder.ArcOptions(
        test_set=test_set_name, num_aug=num_aug, seed=seed, max_side=max_side
    )
    read = [arc_source.read_subset(source, subset) for subset in subsets]
    with progress_bar("build ARC") as moved:
        manifest = arc_builder.build_arc(read, options, output.resolve(), on_progress=moved)
    _show(output, manifest)
    say(f"transductive: the demonstrations of {test_set_name} are among the training examples")


def build_sudoku(
    source: CsvFolder,
    /,
    *,
    output: Output,
    num_aug: Annotated[
        int,
        Parameter(
            help="Augmented versions per training board, besides the original.",
            validator=AT_LEAST_ZERO,
        ),
    ] = 0,
    subsample_size: Subsample = None,
    min_difficulty: Annotated[
        int | None, Parameter(help="Exclude boards with a lower rating.")
    ] = None,
    seed: Seed = 42,
) -> None:
    """Build 9 x 9 Sudoku data from CSV files in the format of Sudoku-Extreme.

    The columns are source, question, answer and rating.

    **Example:**

        reasonloop prr build-sudoku sudoku-extreme --output data/sudoku --subsample-size 1000 --num-aug 1000
    """
    options = BoardOptions(
        num_aug=num_aug, subsample_size=subsample_size, min_rating=min_difficulty, seed=seed
    )
    _build_boards("build Sudoku", source, Sudoku(), options, output)


def build_maze(
    source: CsvFolder,
    /,
    *,
    output: Output,
    aug: Annotated[
        bool, Parameter(negative="", help="Add the other seven symmetries of each training maze.")
    ] = False,
    subsample_size: Subsample = None,
    seed: Seed = 42,
) -> None:
    """Build maze data from CSV files in the format of Maze-Hard.

    The columns are source, question, answer and rating; the cells are `#`, blank, `S`, `G` and `o`.

    **Example:**

        reasonloop prr build-maze maze-30x30-hard-1k --output data/maze --aug
    """
    options = BoardOptions(
        num_aug=NUM_DIHEDRALS - 1 if aug else 0, subsample_size=subsample_size, seed=seed
    )
    _build_boards("build mazes", source, Maze(), options, output)


def build_synthetic(
    *,
    output: Annotated[pathlib.Path, Parameter(help="Folder to write.")],
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Generate a small synthetic task, named by `prr.data.task`, from a seed.

    Sudoku of size 4 and 6, with one solution or exactly two, and a rule that only a cue tells.

    **Example:**

        reasonloop prr build-synthetic --output data/two --set prr.data.task=sudoku4-two
    """
    loaded = params.load()
    manifest = synthetic.build_synthetic(loaded.prr.data, output.resolve(), seed=loaded.seed)
    counts = ", ".join(f"{count:.0f} {name}" for name, count in manifest.counts.items())
    say(f"data: {output} ({counts} examples)")


def _build_boards(
    title: str,
    source: pathlib.Path,
    kind: Sudoku | Maze,
    options: BoardOptions,
    output: pathlib.Path,
) -> None:
    with progress_bar(title) as moved:
        manifest = build_boards(source, kind, options, output.resolve(), on_progress=moved)
    _show(output, manifest)


def _show(output: pathlib.Path, manifest: Manifest) -> None:
    print_counts(manifest.counts)
    say(f"data: {output}")


# Each rank runs the command; rank 0 prints.
console.quiet = environment("RANK") not in {None, "0"}

Data = Annotated[
    pathlib.Path, Parameter(help="Folder in the format of TRM and HRM, with train/ and test/.")
]


def train(
    data: Data,
    /,
    *,
    output: ModelFolder,
    minutes: Minutes = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Train latent branches on the training split; an interrupted training resumes.

    A training that stops because of `--minutes` ends with exit code 3; under torchrun with 1. With
    `prr.train.processes` several GPUs share each batch.

    **Examples:**

        reasonloop prr train data/two --output models/two
        reasonloop prr train data/arc1 --output models/arc1 --profile prr-arc --minutes 9
        reasonloop prr train data/arc1 --output models/arc1 --profile prr-arc --minutes 9 --set prr.train.processes=8
    """
    loaded = params.load()
    check_trackers(loaded.execution)
    count = loaded.prr.train.processes
    if count > 1 and environment("RANK") is None:
        if 0 < (gpus := visible_gpus()) < count:
            raise BadInputError(
                f"prr.train.processes={count}: there are {gpus} GPUs; give at most {gpus}"
            )
        sys.exit(run_ranks([sys.executable, "-m", "flows.cli", *sys.argv[1:]], count=count))
    from pipeline_lib.systems.prr.training.train import train_on  # noqa: PLC0415 - torch is slow

    with progress_bar("train") as moved:
        manifest = train_on(
            data.resolve(),
            output.resolve(),
            loaded.prr,
            seed=loaded.seed,
            execution=loaded.execution,
            max_seconds=seconds_of(minutes),
            progress=moved,
        )
    say(f"model: {output}, {manifest.counts['steps']:.0f} steps, digest {manifest.digest[:16]}")


def evaluate(
    models: Annotated[
        tuple[pathlib.Path, ...],
        Parameter(help="A trained model; several with --ensemble-checkpoints."),
    ],
    /,
    *,
    data: Data,
    output: Annotated[
        pathlib.Path, Parameter(help="Folder for metrics.json, report.html and submission.json.")
    ],
    control: Annotated[
        pathlib.Path | None,
        Parameter(help="A model of one branch, as of `prr run`, that the first is compared with."),
    ] = None,
    ensemble_checkpoints: Annotated[
        bool, Parameter(negative="", help="Pool the ARC votes of several models.")
    ] = False,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Evaluate on the test split: each selection rule beside the oracle; votes and submission for ARC.

    **Examples:**

        reasonloop prr evaluate models/two --data data/two --output reports/two
        reasonloop prr evaluate models/one --data data/two --output reports/one --set prr.evaluate.rollouts=8
    """
    loaded = params.load()
    from pipeline_lib.systems.prr.evaluation_folder import evaluate_on  # noqa: PLC0415 - torch is slow

    with progress_bar("evaluate") as moved:
        evaluate_on(
            data.resolve(),
            [model.resolve() for model in models],
            output.resolve(),
            loaded,
            control=None if control is None else control.resolve(),
            ensemble=ensemble_checkpoints,
            progress=moved,
        )
    print_evaluation(output)


def show(
    model: Annotated[pathlib.Path, Parameter(help="A trained model.")],
    /,
    *,
    data: Data,
    output: Annotated[pathlib.Path, Parameter(help="Folder for pictures and report.html.")],
    examples: Annotated[
        int, Parameter(help="Number of test examples.", validator=AT_LEAST_ONE)
    ] = 8,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Draw input, target and the answers of all branches for the first test examples, as SVG.

    **Example:**

        reasonloop prr show models/two --data data/two --output reports/pictures --examples 4
    """
    loaded = params.load()
    from pipeline_lib.systems.prr.evaluation_folder import show_on  # noqa: PLC0415 - torch is slow

    drawn = show_on(data.resolve(), model.resolve(), output.resolve(), loaded, count=examples)
    say(f"{drawn} pictures: {output / 'report.html'}")
