"""Usage of rollout engines: tokens, cost, budget, engine time.

Tokens and requests are summed from the manifests of the finished shards of a workspace, so totals
agree between processes and after a resumed run. Seconds differ between runs; they are recorded in
the events, outside every digest.
"""

import pathlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from pipeline_lib.engines.known.table import is_in_process
from pipeline_lib.errors import BudgetReachedError
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.records import Path
from pipeline_lib.store.shards import shard_manifests, shard_name, write_rows
from pipeline_lib.telemetry import Event, interval, record_event, union_seconds

PATHS = "paths"
"""Kind of the tables that hold sampled paths."""
SERVICE_FOLDER = pathlib.Path("telemetry") / "service"
"""Serving statistics by path, in parquet files beside the events, one per shard of each table."""
SPENDING = "spending"
"""Name of the event of one drawn shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Requests and tokens."""

    requests: int = 0
    prompt_tokens: int = 0
    """A prompt counts once per request for any number of paths, as providers bill it."""
    cached_tokens: int = 0
    """Part of the prompt tokens whose prefill was reused."""
    completion_tokens: int = 0

    @property
    def tokens(self) -> int:
        """The tokens that ``serve.budget_tokens`` limits."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "Spent") -> "Spent":
        """The sum, field by field."""
        mine, theirs = asdict(self), asdict(other)
        return Spent(**{name: mine[name] + theirs[name] for name in mine})

    def cost(self, serve: ServeParams) -> float:
        """Cost at the prices of ``serve``, in their currency; cached tokens are not discounted."""
        return (
            self.prompt_tokens * serve.price_per_million_prompt_tokens
            + self.completion_tokens * serve.price_per_million_completion_tokens
        ) / 1e6


def spent_on(paths: Sequence[Path]) -> Spent:
    """Usage of ``paths``, which must be grouped by problem."""
    requests = prompt_tokens = cached_tokens = 0
    for _, group in groupby(paths, key=lambda path: path.problem_id):
        first, *others = group
        for path in (first, *(p for p in others if p.service and p.service.opens_request)):
            requests += 1
            prompt_tokens += path.prompt_tokens
            cached_tokens += path.service.cached_tokens if path.service else 0
    return Spent(
        requests=requests,
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        completion_tokens=sum(path.completion_tokens for path in paths),
    )


def spent_in(workspace: pathlib.Path) -> Spent:
    """Usage of all finished shards of paths in ``workspace``."""
    counts = [manifest.counts for manifest in shard_manifests(workspace / "data", kind=PATHS)]
    # Shards of earlier versions lack some counts.
    names = Spent.__dataclass_fields__
    return Spent(**{name: int(sum(count.get(name, 0) for count in counts)) for name in names})


def require_budget(workspace: pathlib.Path, serve: ServeParams) -> None:
    """Check the budget before a shard is drawn; each worker may exceed it by one shard.

    Raises:
        BudgetReachedError: the shards of the workspace have used up the budget.
    """
    if serve.budget_tokens is None and serve.budget_money is None:
        return
    if reached := budget_reached(spent_in(workspace), serve):
        raise BudgetReachedError(
            f"{reached}; finished shards are kept, raise it and run the same command to resume"
        )


def budget_reached(spent: Spent, serve: ServeParams) -> str | None:
    """The budget that ``spent`` has used up, as a message; None if there is none."""
    for name, used, limit in (
        ("budget_tokens", spent.tokens, serve.budget_tokens),
        ("budget_money", spent.cost(serve), serve.budget_money),
    ):
        if limit is not None and used >= limit:
            return f"budget reached: {used:g} of serve.{name}={limit:g} are used"
    return None


def record_spending(  # noqa: PLR0913 - which shard, and what it took
    workspace: pathlib.Path,
    table: pathlib.Path,
    index: int,
    paths: Sequence[Path],
    *,
    draw: str,
    engine_seconds: float,
    gpus: int = 0,
    arithmetic: str | None = None,
) -> None:
    """Record shard ``index`` of ``table``, a folder: an event with its usage, and a file with service data of each path.

    The name of the draw seeds it; evaluated policies share one.
    """
    name = table.relative_to(workspace)
    engine = paths[0].provenance.engine
    record_event(
        workspace,
        SPENDING,
        draw=draw,
        table=name.as_posix(),
        shard=index,
        engine=engine,
        engine_seconds=engine_seconds,
        gpus=gpus,
        arithmetic=arithmetic,
        **asdict(spent_on(paths)),
    )
    rows = [
        {"path": path.id, "engine": engine, **asdict(path.service)}
        for path in paths
        if path.service is not None
    ]
    write_rows(workspace / SERVICE_FOLDER / name / shard_name(index), rows)


def arithmetic_of(events: Iterable[Event]) -> str:
    """Precision and decode pass of the engines of a run; several in a cluster of unlike nodes."""
    found = {
        str(event.get("arithmetic") or "unknown") for event in events if event["event"] == SPENDING
    }
    return "; ".join(sorted(found)) or "unknown"


def engine_time(events: Iterable[Event]) -> tuple[float, float]:
    """Engine seconds of a run, and engine seconds times GPUs; a shard drawn again counts once, as of its last draw.

    Engines in worker processes run in parallel, so their seconds add up. A server is shared: it counts
    as working while any worker waits for it.
    """
    # Evaluated policies share the name of their draw, which seeds it, but no table.
    last = {(e["draw"], e.get("table"), e["shard"]): e for e in events if e["event"] == SPENDING}
    alone = [e for e in last.values() if is_in_process(e["engine"])]
    shared = [e for e in last.values() if not is_in_process(e["engine"])]
    seconds = sum(float(e["engine_seconds"]) for e in alone)
    gpu_seconds = sum(float(e["engine_seconds"]) * e["gpus"] for e in alone)
    for gpus in {e["gpus"] for e in shared}:
        busy = union_seconds(
            [interval(e, e["engine_seconds"]) for e in shared if e["gpus"] == gpus]
        )
        seconds += busy
        gpu_seconds += busy * gpus
    return seconds, gpu_seconds
