"""`reasonloop evaluate`: scores of a JSON-lines file of paths."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from flows.cli.options import DEFAULT_PARAMS, ParamsOptions, Workers
from flows.cli.progress import progress_bar
from flows.cli.tables import print_table
from flows.run.terminal import console, say
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.publish.reporting.headline import make_headline
from pipeline_lib.publish.reporting.tables import paired_table, policy_table, score_table
from pipeline_lib.records import Group
from pipeline_lib.study.arc_score import score_submission, solutions_of, submission_of
from pipeline_lib.study.result import evaluate_policies
from pipeline_lib.study.summary import evaluate_groups
from pipeline_lib.verify.lines.files import groups_from_lines


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
    loaded = params.load()
    groups = _judged(source, loaded, workers=workers)
    if against is None:
        _print_scores(groups, loaded)
    else:
        _print_comparison(_judged(against, loaded, workers=workers), groups, loaded)


def _judged(source: pathlib.Path, params: Params, *, workers: int) -> list[Group]:
    with progress_bar(f"judge {source.name}") as moved:
        return groups_from_lines(source, params.verify, workers=workers, on_progress=moved)


def _print_scores(groups: list[Group], params: Params) -> None:
    summary = evaluate_groups(groups, params.evaluate, seed=params.seed)
    print_table(policy_table(summary))
    say(
        f"{summary.num_paths} paths, {summary.num_unscored} not scored; "
        f"{summary.truncated_fraction:.1%} truncated, "
        f"{summary.mean_completion_tokens:.1f} tokens each"
    )
    _print_arc_score(groups)


def _print_arc_score(groups: list[Group]) -> None:
    """The score of ARC Prize, with the first two paths of each problem as its attempts."""
    problems = [group.problem for group in groups]
    if {problem.kind.name for problem in problems} != {"arc"}:
        return
    try:
        score = score_submission(submission_of(groups), solutions_of(problems))
    except BadInputError as error:
        say(f"no ARC Prize score: {error}")
        return
    say(
        f"ARC Prize score: {score.pass_at_2:.1%} of {len(score.puzzles)} puzzles, with the first two "
        "paths per test input as attempts"
    )


def _print_comparison(before: list[Group], after: list[Group], params: Params) -> None:
    result = evaluate_policies(before, after, params.evaluate, seed=params.seed)
    print_table(score_table(result.summaries))
    print_table(paired_table(result.comparison))
    found = make_headline(result.comparison)
    console.print(found.title, style="bold")
    for sentence in found.sentences:
        say(sentence)
