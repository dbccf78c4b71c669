"""`reasonloop compute-curves`: test-time compute on the policies of a finished run."""

from typing import Annotated, Literal

from cyclopts import Parameter

from flows.cli.options import DEFAULT_PARAMS, DEFAULT_RUN, ParamsOptions, RunOptions
from flows.cli.orchestrated import orchestrated
from flows.cli.tables import print_claims, print_table
from flows.run.terminal import say
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.pages.page import REPORT_NAME, study_tables
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.systems.loop.test_time.studies import PolicyName, check_finished, read_curves


def compute_curves(
    *,
    policy: Annotated[
        Literal["base", "trained", "both"], Parameter(help="Policy of the workspace.")
    ] = "trained",
    options: RunOptions = DEFAULT_RUN,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Plot accuracy against test-time compute for the policies of a finished run.

    Accuracy against tokens and against the longest sequential chain of tokens, with intervals over
    problems, for one path, best-of-N (oracle, likelihood, mean-logprob, self-certainty), votes, beam
    search and tree search. Only the oracle sees gold
    answers; it is an upper bound. Finished shards are reused.

    **Examples:**

        reasonloop compute-curves --workspace /tmp/trial
        reasonloop compute-curves --policy both --set test_time.strategies=[single,majority,tree]
        reasonloop compute-curves --set test_time.budgets=[1,2,4,8,16] --set test_time.tree.exploration=0.5
    """
    loaded = params.load(options.given)
    policies: tuple[PolicyName, ...] = ("base", "trained") if policy == "both" else (policy,)
    workspace = Workspace(options.workspace.resolve())
    check_finished(workspace, loaded, policies)
    with orchestrated(LOOP, workspace.root, loaded) as run:
        from flows.compute_curves import run_compute_curves  # noqa: PLC0415 - see `orchestrated`

        run_compute_curves(run, policies)
    for name, study in read_curves(workspace).items():
        if name in policies:
            for table in study_tables(study):
                print_table(table)
            print_claims(study)
            say(f"\nreport:     {workspace.reports / f'compute-{name}' / REPORT_NAME}")
