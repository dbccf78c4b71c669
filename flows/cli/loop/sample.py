"""`reasonloop sample`: paths for the problems of a data set, as JSON lines."""

from typing import Annotated

from cyclopts import Parameter

from flows.cli.options import AT_LEAST_ONE, DEFAULT_PARAMS, LinesFile, Model, ParamsOptions
from flows.cli.progress import progress_bar
from flows.run.terminal import say
from pipeline_lib.errors import BudgetReachedError
from pipeline_lib.systems.loop.sample_file import SampledSplit, sample_to_file


def sample(
    model: Model,
    /,
    *,
    output: LinesFile,
    num_paths: Annotated[
        int | None, Parameter(help="Paths per problem.", validator=AT_LEAST_ONE)
    ] = None,
    problems: Annotated[
        int | None, Parameter(help="How many problems of the split.", validator=AT_LEAST_ONE)
    ] = None,
    split: Annotated[
        SampledSplit,
        Parameter(help="Draw for train problems what a model is trained on, as by `pacore train`."),
    ] = "test",
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Draw paths for the test or train problems of a data set, as lines that `reasonloop verify` reads.

    **Examples:**

        reasonloop sample models/policy --output paths.jsonl --num-paths 10 --problems 50
        reasonloop sample models/policy --output cache.jsonl --split train
        reasonloop sample models/policy --output paths.jsonl --set serve.engine=vllm
        reasonloop sample NAME --output paths.jsonl --set serve.engine=url --set serve.url=http://host:8000/v1
    """
    given = {"sample.num_paths": num_paths, f"prepare.{split}_problems": problems}
    loaded = params.load(given)
    with progress_bar("sample") as moved:
        sampled = sample_to_file(model, output, loaded, split=split, on_progress=moved)
    say(f"{sampled.num_drawn} problems x {loaded.sample.num_paths} paths: {output}")
    if sampled.note is not None:
        say(sampled.note)
    if sampled.budget_reached:
        raise BudgetReachedError(
            f"{sampled.budget_reached}; {sampled.num_drawn} of {sampled.num_problems} problems are "
            f"in {output}, raise the budget to draw all"
        )
