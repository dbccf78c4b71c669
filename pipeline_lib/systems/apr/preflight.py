"""Checks before a run of all stages: what a later one would refuse, after the trainings."""

from pipeline_lib.errors import BadInputError
from pipeline_lib.systems.stage import Run


def check_run(run: Run, *, draws: bool) -> None:
    """Check that the stages of ``run`` fit each other.

    Raises:
        BadInputError: more problems in a step of RL than there are, or more children than are trained on.
    """
    del draws  # the embedded engine is always installed
    params = run.params.apr
    data, rl = params.data, params.rl
    if rl.steps and rl.prompts > data.train_problems:
        raise BadInputError(
            f"apr.rl.prompts={rl.prompts}: is above apr.data.train_problems={data.train_problems}; "
            "lower it"
        )
    most = data.parallel.beam_high
    for name, children in (("rl", rl.children), ("evaluate", params.evaluate.children)):
        if children is not None and children > most:
            raise BadInputError(
                f"apr.{name}.children={children}: is above apr.data.parallel.beam_high={most}, the "
                "most that a model is trained on; lower it"
            )
