"""One rollout as a tree of its threads, with the tokens of each draw."""

import asyncio
import pathlib
import re
from collections.abc import Iterator

from pipeline_lib.errors import BadInputError
from pipeline_lib.problems.countdown import problem_id
from pipeline_lib.systems.apr.countdown.data_folder import ProblemLine
from pipeline_lib.systems.apr.evaluation.drawn import TOKEN_COUNTS
from pipeline_lib.systems.apr.evaluation.plans import EvaluationSetting, Plan, make_plans
from pipeline_lib.systems.apr.evaluation.problem_source import ProblemSource
from pipeline_lib.systems.apr.rollouts import Row, evaluated_row
from pipeline_lib.systems.apr.scheduler import run_rollouts
from pipeline_lib.systems.apr.threads import Role, Rollout

_PROBLEM = re.compile(r"\s*(\d{1,9}(?:\s*,\s*\d{1,9})+)\s*=\s*(\d{1,9})\s*", re.ASCII)


def parse_problem(text: str) -> ProblemLine:
    """The problem of a text such as ``3,5,12=27``.

    Raises:
        BadInputError: it is no such text.
    """
    found = _PROBLEM.fullmatch(text)
    if found is None:
        raise BadInputError(f"--problem {text}: expected numbers and a target, as in 3,5,12=27")
    # Sorted as in the data, where the same problem has the same id, hence the same seeds.
    numbers = tuple(sorted(int(number) for number in found[1].split(",")))
    target = int(found[2])
    return ProblemLine(id=problem_id(numbers, target), numbers=numbers, target=target)


def trace_problem(folder: pathlib.Path, problem: ProblemLine, setting: EvaluationSetting) -> Row:
    """The first rollout of ``problem``, with the seeds of an evaluation that has a problem of this id.

    Returns:
        A row as in rollouts.jsonl, with ``tokens`` in each sequence.

    Raises:
        BadInputError: the model or the condition cannot be used.
        ReasonloopError: the server does not answer.
    """
    [plan] = make_plans({str(folder): folder}, ProblemSource(problems=[problem]), setting)
    rollout = asyncio.run(_draw(plan))
    row, count = evaluated_row(rollout, problem.gold), plan.model.tokens.count
    assert count is not None
    for shown, sequence in zip(row["seqs"], rollout.sequences, strict=True):
        ids = sequence.output_ids
        shown["tokens"] = count(sequence.output) if ids is None else len(ids)
    return row


async def _draw(plan: Plan) -> Rollout:
    async with plan.open_runtime() as runtime:
        [rollout] = await run_rollouts(runtime, plan.roots(plan.problems))
    return rollout


def tree_lines(row: Row) -> Iterator[str]:
    """The tree: threads by indentation, each draw with its tokens and its text."""
    for sequence in row["seqs"]:
        is_child = sequence["role"] == Role.CHILD
        indent = "    " if is_child else ""
        thread = f"child {sequence['child']}" if is_child else "parent"
        yield f"{indent}{thread}, round {sequence['round']}: {sequence['tokens']} tokens"
        yield from (f"{indent}  {line}" for line in sequence["output"].strip("\n").split("\n"))
    if "error" in row:
        yield f"failed: {row['error']}"
        return
    claim = "no claim" if row["claim"] is None else "the claim is "
    right = "" if row["claim"] is None else "right" if row["is_correct"] else "wrong"
    counts = ", ".join(f"{name} {row['tokens'][name]}" for name in TOKEN_COUNTS)
    yield f"{claim}{right}; tokens: {counts}"
