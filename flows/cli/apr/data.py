"""`reasonloop apr generate`."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from flows.cli.options import AT_LEAST_ONE, DEFAULT_PARAMS, ParamsOptions
from flows.cli.progress import progress_bar
from flows.run.terminal import say
from pipeline_lib.systems.apr.countdown.data_folder import generate_data
from pipeline_lib.systems.apr.countdown.sequences import KINDS


def generate(
    *,
    output: Annotated[pathlib.Path, Parameter(help="Folder for problems and traces.")],
    workers: Annotated[
        int,
        Parameter(help="Processes; the result does not depend on them.", validator=AT_LEAST_ONE),
    ] = 1,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Write Countdown problems and the traces of parallel and serial searches; a killed command continues.

    **Examples:**

        reasonloop apr generate --output data/apr --workers 2
        reasonloop apr generate --output data/apr4 --set apr.data.countdown.num_numbers=4
    """
    loaded = params.load()
    with progress_bar("generate") as moved:
        manifest = generate_data(
            loaded.apr.data,
            output.resolve(),
            seed=loaded.seed,
            workers=workers,
            progress=moved,
        )
    counts = manifest.counts
    for kind in KINDS:
        solved = counts[f"{kind}_solved"] / counts[f"{kind}_problems"]
        say(f"{kind}: {counts[f'{kind}_rows']:.0f} sequences, {solved:.1%} of the problems solved")
    say(f"data: {output}, digest {manifest.digest[:16]}")
