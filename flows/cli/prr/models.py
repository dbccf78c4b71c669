"""`reasonloop prr train`, `evaluate` and `show`."""

import pathlib
import sys
from typing import Annotated

from cyclopts import Parameter

from flows.cli.options import (
    AT_LEAST_ONE,
    DEFAULT_PARAMS,
    Minutes,
    ModelFolder,
    ParamsOptions,
    seconds_of,
)
from flows.cli.progress import progress_bar
from flows.cli.tables import print_evaluation
from flows.run.admission import check_trackers
from flows.run.ranks import run_ranks
from flows.run.terminal import console, say
from pipeline_lib.engines.gpus import visible_gpus
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.environment import environment

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
            report_to=loaded.execution.report_to,
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
