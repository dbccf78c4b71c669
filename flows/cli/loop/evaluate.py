"""`reasonloop evaluate`: scores of a JSON-lines file of paths."""

import pathlib
from collections.abc import Mapping
from typing import Annotated

from cyclopts import Parameter

from flows.cli.options import DEFAULT_PARAMS, ParamsOptions, Workers
from flows.cli.progress import progress_bar
from flows.cli.tables import print_claims, print_table
from flows.run.terminal import say
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Group
from pipeline_lib.study.arc_score import arc_prize_score, solved_by_first_paths
from pipeline_lib.study.pages.page import study_tables
from pipeline_lib.study.policies import compare_groups
from pipeline_lib.verify.lines import groups_from_lines

_ANY_NUMBER = 1 << 20


def evaluate(
    source: Annotated[pathlib.Path, Parameter(help="Paths, several per `problem_id`.")],
    /,
    *,
    against: Annotated[
        pathlib.Path | None, Parameter(help="Paths of another policy for the same problems.")
    ] = None,
    workers: Workers = 2,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Judge the paths of a JSON-lines file and print pass@k with intervals.

    **Example:**

        reasonloop evaluate trained.jsonl --against base.jsonl --set evaluate.ks=[1,4]
    """
    # It limits k where paths are drawn; here the file does.
    loaded = params.load({"evaluate.num_paths": _ANY_NUMBER})
    groups = _judged(source, loaded, workers=workers)
    before = {} if against is None else {"base": _judged(against, loaded, workers=workers)}
    _print_scores({**before, "policy": groups}, loaded)
    if against is None:
        _print_arc_score(groups)


def _judged(source: pathlib.Path, params: Params, *, workers: int) -> list[Group]:
    with progress_bar(f"judge {source.name}") as moved:
        return groups_from_lines(source, params.verify, workers=workers, on_progress=moved)


def _print_scores(policies: Mapping[str, list[Group]], params: Params) -> None:
    """The claims, if two policies are compared, the tables, and the paths without a score."""
    most = min(
        max((len(one.scored()) for one in groups), default=0) for groups in policies.values()
    )
    ks = tuple(k for k in params.evaluate.ks if k == 1 or k <= most)
    if left_out := sorted({*params.evaluate.ks} - {*ks}):
        say(f"at most {most} scored paths of a problem, so no pass@k for k = {left_out}")
    evaluate = params.evaluate.model_copy(update={"ks": ks})
    compared = compare_groups(policies, evaluate, seed=params.seed)
    if len(policies) > 1:
        print_claims(compared.study)
    for table in study_tables(compared.study):
        print_table(table)
    for scores in compared.scores:
        counts = scores.counts
        say(
            f"{scores.arm.base}: {counts.paths} paths, {counts.unscored} not scored; "
            f"{counts.truncated:.1%} truncated, {counts.mean_tokens:.1f} tokens each"
        )


def _print_arc_score(groups: list[Group]) -> None:
    """The score of ARC Prize, with the first two paths of each problem as its attempts."""
    if {group.problem.kind.name for group in groups} != {"arc"}:
        return
    try:
        solved = solved_by_first_paths(groups)
    except BadInputError as error:
        say(f"no ARC Prize score: {error}")
        return
    say(
        f"ARC Prize score: {arc_prize_score(solved):.1%} of {len(solved)} puzzles, with the first two "
        "paths per test input as attempts"
    )
