"""Checks before a run of the stages."""

from pipeline_lib.errors import BadInputError
from pipeline_lib.systems.stage import Run


def check_run(run: Run, *, draws: bool) -> None:
    """Check that the training is one process, which a stage is.

    Raises:
        BadInputError: it is several.
    """
    del draws
    count = run.params.prr.train.processes
    if count > 1:
        raise BadInputError(
            f"prr.train.processes={count}: a stage trains in one process; use "
            f"`reasonloop prr train --set prr.train.processes={count}`"
        )
