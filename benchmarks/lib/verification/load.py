"""Load tests for `benchmarks.verification`: two Ray workers, and a batch with hostile items."""

import itertools
import logging
import resource
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from benchmarks.lib.repository import REPOSITORY
from benchmarks.lib.verification.item_sets import HOSTILE, Items, MathItem, ordinary_items
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.seeding import child_random
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verify.dispatch import Item, open_verifier

ROUND_SIZE = 1200
SHARD_SIZE = 30
BATCH_SIZE = 2000
HOSTILE_EVERY = 20
_MEBIBYTE = 1 << 20
_POLL_S = 0.05


def to_verifier_items(items: Items) -> list[Item]:
    """The items in the form that the verifier takes."""
    return [Item(gold=MathGold(answer=item.gold), text=item.text) for item in items]


def cpu_seconds() -> float:
    """CPU seconds of this process and its children, including finished ones."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)


# ---- two Ray workers against one ----


class Judge:
    """A Ray worker with a warmed-up verifier of one process."""

    def __init__(self) -> None:
        self._verifier = open_verifier(VerifyParams(), workers=1)
        self.judge(to_verifier_items([MathItem(gold="p", text="\\boxed{p+q}")]))

    def judge(self, shard: list[Item]) -> int:
        """Number of right items."""
        return sum(verdict.lenient is True for verdict in self._verifier.judge(shard))

    def cpu_seconds(self) -> float:
        """CPU seconds of this worker and its verifier."""
        return cpu_seconds()

    def close(self) -> None:
        """Stop the processes."""
        self._verifier.close()


def ray_workers(rounds: int) -> dict[str, Any]:
    """Throughput of the same shards on one and on two Ray workers; new shards in each round."""
    import ray  # noqa: PLC0415 - not in the processes that measure memory

    folder = str(REPOSITORY)
    ray.init(
        num_cpus=3,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        runtime_env={"env_vars": {"PYTHONPATH": folder}},
    )
    items = to_verifier_items(ordinary_items(rounds * ROUND_SIZE))
    child_random(0, "rounds").shuffle(items)  # equal cost per round
    turns: dict[int, list[_Turn]] = {1: [], 2: []}
    try:
        worker: Any = ray.remote(num_cpus=1)(Judge)
        judges = [worker.remote() for _ in range(3)]
        for place in range(rounds):
            # No worker sees an item twice: verdicts are cached.
            turns[1].append(_turn(items[place::rounds], judges[:1]))
            turns[2].append(_turn(items[place::rounds], judges[1:]))
        ray.get([judge.close.remote() for judge in judges])
    finally:
        ray.shutdown()
    return _ray_report(turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """One measurement of a round."""

    seconds: float
    cpu_seconds: float


def _turn(items: list[Item], judges: Sequence[Any]) -> _Turn:
    """Judge the shards on a pool of workers; starting the workers is not measured."""
    import ray  # noqa: PLC0415 - not in the processes that measure memory
    from ray.util import ActorPool  # noqa: PLC0415 - as above

    shards = [items[start : start + SHARD_SIZE] for start in range(0, len(items), SHARD_SIZE)]
    cpu = sum(ray.get([judge.cpu_seconds.remote() for judge in judges]))
    start = time.perf_counter()
    for _ in ActorPool(list(judges)).map_unordered(
        lambda judge, shard: judge.judge.remote(shard), shards
    ):
        pass
    seconds = time.perf_counter() - start
    cpu = sum(ray.get([judge.cpu_seconds.remote() for judge in judges])) - cpu
    return _Turn(seconds=seconds, cpu_seconds=cpu)


def _ray_report(turns: dict[int, list[_Turn]]) -> dict[str, Any]:
    """Print and return the figures.

    On a loaded machine two workers get less than twice the cores of one; CPU time per item is then
    the better measure of the cost of the second worker.
    """
    print(f"\n{'Ray workers':16}{'items/s':>10}{'cores':>8}{'CPU ms/item':>13}")
    cpu_ms: dict[int, float] = {}
    for workers, found in turns.items():
        rate = ROUND_SIZE / statistics.median(turn.seconds for turn in found)
        cores = statistics.median(turn.cpu_seconds / turn.seconds for turn in found)
        cpu_ms[workers] = 1000 * statistics.median(turn.cpu_seconds for turn in found) / ROUND_SIZE
        shown = ", ".join(f"{ROUND_SIZE / turn.seconds:.0f}" for turn in found)
        print(f"{workers:<16}{rate:>10.0f}{cores:>8.2f}{cpu_ms[workers]:>13.2f}  ({shown})")
    pairs = zip(turns[1], turns[2], strict=True)
    best = [min(turn.seconds for turn in turns[workers]) for workers in (1, 2)]
    figures = {
        "efficiency": statistics.median(one.seconds / (2 * two.seconds) for one, two in pairs),
        "efficiency_of_the_best": best[0] / (2 * best[1]),
        "efficiency_by_cpu": cpu_ms[1] / cpu_ms[2],
    }
    print(
        f"efficiency of two: {figures['efficiency']:.1%} (median of rounds), "
        f"{figures['efficiency_of_the_best']:.1%} (best of each), "
        f"{figures['efficiency_by_cpu']:.1%} by CPU time"
    )
    return {
        **figures,
        "turns": {workers: list(map(asdict, found)) for workers, found in turns.items()},
    }


# ---- a batch with hostile items ----


@dataclass(slots=True, kw_only=True)
class _Peak:
    """Peak memory of the processes of a verifier, in MiB."""

    one: float = 0.0
    together: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    verdicts: list[Verdict]
    seconds: float
    parent_mb: float
    peak: _Peak


def hostile_batch() -> dict[str, Any]:
    """2,000 items, 5 % of them hostile: time, memory, and changed verdicts of the others.

    The bound on the time is 1.2 times the time without them, and the deadlines that were reached.
    """
    ordinary = ordinary_items(BATCH_SIZE - BATCH_SIZE // HOSTILE_EVERY)
    mixed = _with_hostile(ordinary)
    before_mb = _parent_mb()
    alone = _run(ordinary)
    together = _run([item for _, item in mixed])
    others = [v for (name, _), v in zip(mixed, together.verdicts, strict=True) if name is None]
    changed = [
        (item.gold, before.status.value, after.status.value)
        for item, before, after in zip(ordinary, alone.verdicts, others, strict=True)
        if before.row() != after.row()
    ]
    statuses = Counter(
        (name, verdict.status.value)
        for (name, _), verdict in zip(mixed, together.verdicts, strict=True)
        if name is not None
    )
    print(f"\n{len(mixed)} items, {len(mixed) - len(ordinary)} of them hostile")
    print(f"{'':34}{'seconds':>10}{'items/s':>10}{'parent MiB':>12}{'one process':>13}{'all':>8}")
    for label, run in (("without them", alone), ("with them", together)):
        rate = len(run.verdicts) / run.seconds
        print(
            f"{label:34}{run.seconds:>10.1f}{rate:>10.0f}{run.parent_mb:>12.0f}"
            f"{run.peak.one:>13.0f}{run.peak.together:>8.0f}"
        )
    deadlines = sum(v.seconds for v in together.verdicts if v.status is Status.TIMEOUT)
    bound = 1.2 * alone.seconds + deadlines
    print(
        f"deadlines reached: {deadlines:.1f} s with one worker; "
        f"bound {bound:.1f} s, {together.seconds / bound:.2f} of it taken"
    )
    print(f"changed verdicts of the others: {len(changed)} {changed[:5] or ''}")
    for (name, status), count in sorted(statuses.items()):
        print(f"  {count} x {name}: {status}")
    return {
        "seconds_without": alone.seconds,
        "seconds_with": together.seconds,
        "seconds_of_deadlines": deadlines,
        "changed": len(changed),
        "parent_mb_before": before_mb,
        "parent_mb": together.parent_mb,
        "one_process_mb": together.peak.one,
        "all_processes_mb": together.peak.together,
        "statuses": {f"{name}: {status}": count for (name, status), count in statuses.items()},
    }


def _with_hostile(ordinary: Items) -> list[tuple[str | None, MathItem]]:
    """Insert a hostile item, by name, before every nine; no two are the same question."""
    hostile = itertools.cycle(HOSTILE.items())
    mixed: list[tuple[str | None, MathItem]] = []
    for place, item in enumerate(ordinary):
        if place % (HOSTILE_EVERY - 1) == 0:
            name, text = next(hostile)
            mixed.append((name, MathItem(gold=f"{place}\\pi", text=text)))
        mixed.append((None, item))
    return mixed


def _run(items: Items) -> _Run:
    with open_verifier(VerifyParams(), workers=1) as verifier:
        verifier.judge(to_verifier_items([MathItem(gold="p", text="\\boxed{p+q}")]))
        with _measure_children() as peak:
            start = time.perf_counter()
            verdicts = verifier.judge(to_verifier_items(items))
            seconds = time.perf_counter() - start
    return _Run(verdicts=verdicts, seconds=seconds, parent_mb=_parent_mb(), peak=peak)


def _parent_mb() -> float:
    """Peak memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def _measure_children() -> Iterator[_Peak]:
    """Peak memory of all child processes, sampled every 50 ms."""
    peak = _Peak()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_S):
            sizes = [_resident_mb(p) for p in psutil.Process().children(recursive=True)]
            peak.one = max(peak.one, *sizes, 0.0)
            peak.together = max(peak.together, sum(sizes))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def _resident_mb(process: psutil.Process) -> float:
    """Resident memory in MiB; pages shared with the parent count in full."""
    try:
        return process.memory_info().rss / _MEBIBYTE
    except psutil.NoSuchProcess:
        return 0.0
