"""`reasonloop compute-curves`: test-time compute on the policies of a finished run."""

from typing import Annotated, Literal

from cyclopts import Parameter

from flows.cli.options import AT_LEAST_ONE, DEFAULT_PARAMS, DEFAULT_RUN, ParamsOptions, RunOptions
from flows.cli.orchestrated import orchestrated
from flows.cli.tables import print_claims, print_table
from flows.run.terminal import say
from pipeline_lib.publish.reporting.curves import read_curves
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.pages.page import REPORT_NAME, study_tables
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.systems.loop.test_time.preflight import PolicyName, check_finished


def compute_curves(
    *,
    policy: Annotated[
        Literal["base", "trained", "both"], Parameter(help="Policy of the workspace.")
    ] = "trained",
    strategies: Annotated[
        str | None,
        Parameter(
            help="Some of single, oracle, likelihood, mean-logprob, self-certainty, majority, "
            "likelihood-vote, self-certainty-vote, borda-vote, beam and tree, separated by commas; "
            "default: test_time.strategies of the params file."
        ),
    ] = None,
    max_paths: Annotated[
        int | None,
        Parameter(
            help="Largest budget: paths, beam branches or tree rollouts per problem; the curve also has "
            "every power of two below it.",
            validator=AT_LEAST_ONE,
        ),
    ] = None,
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
        reasonloop compute-curves --policy both --strategies single,majority,tree --max-paths 16
        reasonloop compute-curves --set test_time.tree.exploration=0.5 --set test_time.beam.expansion=2
    """
    more = [f"test_time.strategies=[{strategies}]"] if strategies is not None else []
    if max_paths is not None:
        powers = [2**power for power in range(max_paths.bit_length()) if 2**power < max_paths]
        more.append(f"test_time.budgets={[*powers, max_paths]}")
    loaded = params.load(options.given, *more)
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
