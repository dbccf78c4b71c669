"""One rollout as a tree of its threads, with the tokens of each draw."""

import asyncio
import pathlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline_lib.engines.tokens import encode_completion
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.problems.countdown import problem_id
from pipeline_lib.systems.apr.countdown.data_folder import ProblemLine
from pipeline_lib.systems.apr.evaluation.conditions import choose_condition
from pipeline_lib.systems.apr.evaluation.drawn import TOKEN_COUNTS
from pipeline_lib.systems.apr.evaluation.open_draws import ThreadModel
from pipeline_lib.systems.apr.evaluation.page import write_trace
from pipeline_lib.systems.apr.evaluation.problem_source import check_fit, root_prompt
from pipeline_lib.systems.apr.evaluation.rollout_rows import evaluated_row
from pipeline_lib.systems.apr.model_record import read_record
from pipeline_lib.systems.apr.rollout import Role, Rollout, Root
from pipeline_lib.systems.apr.rollouts import Row
from pipeline_lib.systems.apr.scheduler import run_rollouts

_PROBLEM = re.compile(r"\s*(\d{1,9}(?:\s*,\s*\d{1,9})+)\s*=\s*(\d{1,9})\s*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSetting:
    """Condition and draws of one rollout."""

    children: int | None
    """Per spawn, for parallel models, 0: no condition; None: the default of `choose_condition`."""
    tokens: int | None
    """Of a sequence, for serial models; the same."""
    temperature: float
    first_success: bool
    serve: ServeParams | None
    """The server of the model; None: it is drawn in process."""
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A rollout with the tokens of each sequence."""

    rollout: Rollout
    row: Row
    """As in rollouts.jsonl, with ``tokens`` in each sequence."""

    def lines(self) -> Iterator[str]:
        """The tree: threads by indentation, each draw with its tokens and its text."""
        for sequence in self.row["seqs"]:
            is_child = sequence["role"] == Role.CHILD
            indent = "    " if is_child else ""
            thread = f"child {sequence['child']}" if is_child else "parent"
            yield f"{indent}{thread}, round {sequence['round']}: {sequence['tokens']} tokens"
            yield from (f"{indent}  {line}" for line in sequence["output"].strip("\n").split("\n"))
        if "error" in self.row:
            yield f"failed: {self.row['error']}"
            return
        claim = "no claim" if self.row["claim"] is None else "the claim is "
        right = "" if self.row["claim"] is None else "right" if self.row["is_correct"] else "wrong"
        counts = ", ".join(f"{name} {self.row['tokens'][name]}" for name in TOKEN_COUNTS)
        yield f"{claim}{right}; tokens: {counts}"


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


def trace_problem(folder: pathlib.Path, problem: ProblemLine, setting: TraceSetting) -> Trace:
    """The first rollout of ``problem``, with the seeds of an evaluation that has a problem of this id.

    Raises:
        BadInputError: the model or the condition cannot be used.
        ReasonloopError: the server does not answer.
    """
    record = read_record(folder)
    check_fit(folder, record, [problem], style=None)
    amount, other = setting.children, setting.tokens
    if record.kind == "serial":
        amount, other = other, amount
    if other is not None:
        name = "tokens" if record.kind == "parallel" else "children"
        raise BadInputError(f"--{name} {other}: {folder} is a {record.kind} model; leave it out")
    condition = choose_condition(folder, record, amount)
    model = ThreadModel.read(folder, record, setting.serve)
    root = Root(problem_id=problem.id, sample=0, prompt=root_prompt(problem, record, condition))
    model.check_room([root])
    [rollout] = asyncio.run(_draw(model, [root], setting))
    row = evaluated_row(rollout, problem.gold)
    for shown, sequence in zip(row["seqs"], rollout.sequences, strict=True):
        ids = sequence.output_ids
        shown["tokens"] = len(
            encode_completion(model.tokenizer, sequence.output) if ids is None else ids
        )
    return Trace(rollout=rollout, row=row)


async def _draw(model: ThreadModel, roots: Sequence[Root], setting: TraceSetting) -> list[Rollout]:
    async with model.open_runtime(
        temperature=setting.temperature, seed=setting.seed, first_success=setting.first_success
    ) as runtime:
        return await run_rollouts(runtime, roots)


def write_trace_page(path: pathlib.Path, folder: pathlib.Path, trace: Trace) -> None:
    """Write the tree as one HTML file."""
    write_trace(path, str(folder), trace.row)
