"""`reasonloop compute-curves`: test-time compute on the policies of a finished run, or on any model."""

from typing import Annotated, Literal

from cyclopts import Parameter

from flows.cli.options import (
    ANY_MODEL,
    AT_LEAST_ONE,
    DEFAULT_PARAMS,
    DEFAULT_RUN,
    ParamsOptions,
    RunOptions,
    read_set,
)
from flows.cli.orchestrated import orchestrated
from flows.cli.serving import with_served_model
from flows.cli.tables import print_claims, print_table
from flows.run.terminal import say
from pipeline_lib.errors import BadInputError
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.pages.page import REPORT_NAME, study_tables
from pipeline_lib.systems.loop.benchmark import BENCHMARK
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.systems.loop.test_time.studies import (
    model_from_outside,
    policies_of_run,
    read_curves,
)


def compute_curves(
    model: Annotated[
        str | None, Parameter(help=f"{ANY_MODEL} Default: a policy of the workspace.")
    ] = None,
    /,
    *,
    policy: Annotated[
        Literal["base", "trained", "both"], Parameter(help="Policy of the workspace.")
    ] = "trained",
    dataset: Annotated[
        str | None,
        Parameter(
            help="What MODEL is asked: a whole data set, as NAME, NAME=FOLDER or NAME=HUB_ID."
        ),
    ] = None,
    problems: Annotated[
        int | None,
        Parameter(help="How many of the data set; default: all.", validator=AT_LEAST_ONE),
    ] = None,
    options: RunOptions = DEFAULT_RUN,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Plot accuracy against test-time compute for the policies of a finished run, or for any model.

    Accuracy against tokens and against the longest sequential chain of tokens, with intervals over
    problems, for one path, best-of-N (oracle, likelihood, mean-logprob, self-certainty), votes, beam
    search and tree search. Only the oracle sees gold
    answers; it is an upper bound. Finished shards are reused.

    **Examples:**

        reasonloop compute-curves --workspace /tmp/trial
        reasonloop compute-curves --policy both --set test_time.strategies=[single,majority,tree]
        reasonloop compute-curves --set test_time.budgets=[1,2,4,8,16] --set test_time.tree.exploration=0.5
        reasonloop compute-curves models/smollm2 --dataset gsm8k --problems 20 --profile smol --workspace curves
    """
    if (model is None) != (dataset is None):
        raise BadInputError(
            "MODEL and --dataset: give both, or neither for a policy of the workspace"
        )
    loaded = params.load({**options.given, "evaluate.sets": read_set(dataset, problems)})
    workspace = Workspace(options.workspace.resolve())
    if model is None:
        system, names = LOOP, ("base", "trained") if policy == "both" else (policy,)
        studied = policies_of_run(workspace, loaded, names)
    else:
        name, loaded = with_served_model(loaded, model)
        system, studied = BENCHMARK, [model_from_outside(workspace, loaded, name)]
    with orchestrated(system, workspace.root, loaded) as run:
        from flows.compute_curves import run_compute_curves  # noqa: PLC0415 - see `orchestrated`

        run_compute_curves(run, studied)
    own = [one.name for one in studied]
    for name, study in read_curves(workspace).items():
        if name in own:
            for table in study_tables(study):
                print_table(table)
            print_claims(study)
            say(f"\nreport:     {workspace.reports / f'compute-{name}' / REPORT_NAME}")
