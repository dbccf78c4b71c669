"""Paths for the problems of a split of a data set, as a JSON-lines file outside of a workspace."""

import pathlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from pipeline_lib.engines.started_engine import started_engine
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.splits import split_notes
from pipeline_lib.problems.worked import first_worked
from pipeline_lib.records import Row
from pipeline_lib.sampling.accounting import Spent, budget_reached, spent_on
from pipeline_lib.sampling.paths import sample_paths
from pipeline_lib.sampling.splits import checked_splits
from pipeline_lib.store.files import check_output, write_json_lines
from pipeline_lib.store.shards import split as shards_of
from pipeline_lib.systems.loop.context import check_context
from pipeline_lib.verify.lines import path_line

SampledSplit = Literal["test", "train", "bootstrap"]
_DRAWS: Mapping[SampledSplit, str] = {
    "test": "sample",
    "train": "round-1",  # the paths of a run's first round
    "bootstrap": "sample",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledFile:
    """Counts of a written file."""

    num_problems: int
    note: str | None
    """Why they are fewer than were asked for, if they are."""
    num_drawn: int
    """Problems whose paths are in the file."""
    budget_reached: str | None
    """The budget that ended the draw early, if one did."""


def sample_to_file(
    model: str,
    output: pathlib.Path,
    params: Params,
    *,
    split: SampledSplit = "test",
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> SampledFile:
    """Draw ``sample.num_paths`` paths per problem of ``split``, as lines that the verifier reads.

    When a budget of ``serve`` is reached, the file ends after the last complete shard.

    Raises:
        BadInputError: unusable data set, model or output, or a prompt that the context cannot hold.
    """
    check_output(output)
    splits = checked_splits(params.prepare, seed=params.seed)
    problems = {"test": splits.test, "train": splits.train, "bootstrap": splits.bootstrap}[split]
    examples = first_worked(splits.bootstrap, params.sample.shots)
    check_context(
        problems,
        pathlib.Path(model),
        max_new_tokens=params.sample.max_new_tokens,
        examples=examples,
    )
    done = 0
    spent = Spent()

    def lines() -> Iterator[Row]:
        nonlocal done, spent
        for shard in shards_of(problems, params.sample.shard_size):
            if budget_reached(spent, params.serve):
                return
            by_id = {problem.id: problem for problem in shard}
            paths = sample_paths(
                shard,
                engine,
                params.sample,
                seed=params.seed,
                draw=_DRAWS[split],
                examples=examples,
            )
            yield from (path_line(path, by_id[path.problem_id]) for path in paths)
            spent += spent_on(paths)
            done += len(shard)
            on_progress(done, len(problems))

    with started_engine(
        model,
        params.serve,
        log_folder=output.parent / "logs",
        batch_size=params.sample.batch_size,
    ) as engine:
        write_json_lines(output, lines())
    return SampledFile(
        num_problems=len(problems),
        note=split_notes(asdict(splits.report)).get(split),
        num_drawn=done,
        budget_reached=budget_reached(spent, params.serve) if done < len(problems) else None,
    )
