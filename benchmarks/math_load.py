"""Parts of the verification benchmark about load: two Ray workers, a batch with hostile items.

`verification.py` runs them; the items come from `math_sets.py`.
"""

import itertools
import pathlib
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
from math_sets import HOSTILE, Items, MathItem, ordinary_items

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.seeding import child_random
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verification.dispatch import Item, open_verifier

ROUND_SIZE = 1200
SHARD_SIZE = 30
BATCH_SIZE = 2000
HOSTILE_EVERY = 10
_MEBIBYTE = 1 << 20
_POLL_S = 0.05


def to_verify(items: Items) -> list[Item]:
    """The same items as the verifier takes them."""
    return [Item(gold=MathGold(answer=item.gold), text=item.text) for item in items]


def cpu_seconds() -> float:
    """Of this process and of all that it started, ended ones included."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)


# ---- two Ray workers against one ----


class Judge:
    """A Ray worker with a verifier of one process, which has answered something already."""

    def __init__(self) -> None:
        self._verifier = open_verifier(VerifyParams(), workers=1)
        self.judge(to_verify([MathItem(gold="p", text="\\boxed{p+q}")]))

    def judge(self, shard: list[Item]) -> int:
        """How many are right."""
        return sum(verdict.lenient is True for verdict in self._verifier.judge(shard))

    def cpu_seconds(self) -> float:
        """Of this worker and of its verifier."""
        return cpu_seconds()

    def close(self) -> None:
        """End the processes."""
        self._verifier.close()


def ray_workers(rounds: int) -> dict[str, Any]:
    """Throughput of the same shards on one and on two Ray workers, in turns, new ones each round."""
    import ray

    folder = str(pathlib.Path(__file__).parent)
    ray.init(
        num_cpus=3,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": folder}},
    )
    items = to_verify(ordinary_items(rounds * ROUND_SIZE))
    child_random(0, "rounds").shuffle(items)  # so that rounds cost the same
    turns: dict[int, list[_Turn]] = {1: [], 2: []}
    try:
        judges = [ray.remote(num_cpus=1)(Judge).remote() for _ in range(3)]
        for place in range(rounds):
            # Whoever judges a round has not seen its items before.
            turns[1].append(_turn(items[place::rounds], judges[:1]))
            turns[2].append(_turn(items[place::rounds], judges[1:]))
        ray.get([judge.close.remote() for judge in judges])
    finally:
        ray.shutdown()
    return _ray_report(turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """The items of a round judged once."""

    seconds: float
    cpu_seconds: float


def _turn(items: list[Item], judges: Sequence[Any]) -> _Turn:
    """Each shard is given to whichever worker is free; starting them is not counted."""
    import ray
    from ray.util import ActorPool

    shards = [items[start : start + SHARD_SIZE] for start in range(0, len(items), SHARD_SIZE)]
    cpu = sum(ray.get([judge.cpu_seconds.remote() for judge in judges]))
    start = time.perf_counter()
    for _ in ActorPool(judges).map_unordered(
        lambda judge, shard: judge.judge.remote(shard), shards
    ):
        pass
    seconds = time.perf_counter() - start
    cpu = sum(ray.get([judge.cpu_seconds.remote() for judge in judges])) - cpu
    return _Turn(seconds=seconds, cpu_seconds=cpu)


def _ray_report(turns: dict[int, list[_Turn]]) -> dict[str, Any]:
    """Print and return the figures, with the CPU time that the verdicts took.

    On a machine that does other things as well, two workers get less than twice the cores of one;
    CPU time an item then tells what the second worker really costs.
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
    """The most memory that the processes of a verifier held, in MiB."""

    one: float = 0.0
    together: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    verdicts: list[Verdict]
    seconds: float
    parent_mb: float
    peak: _Peak


def hostile_batch() -> dict[str, Any]:
    """2,000 items, every tenth hostile: time, memory, and whether the others' verdicts stay."""
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
    print(f"changed verdicts of the others: {len(changed)} {changed[:5] or ''}")
    for (name, status), count in sorted(statuses.items()):
        print(f"  {count} x {name}: {status}")
    return {
        "seconds_without": alone.seconds,
        "seconds_with": together.seconds,
        "changed": len(changed),
        "parent_mb_before": before_mb,
        "parent_mb": together.parent_mb,
        "one_process_mb": together.peak.one,
        "all_processes_mb": together.peak.together,
        "statuses": {f"{name}: {status}": count for (name, status), count in statuses.items()},
    }


def _with_hostile(ordinary: Items) -> list[tuple[str | None, MathItem]]:
    """Before every nine items a hostile one, by name; no two of them are the same question."""
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
        verifier.judge(to_verify([MathItem(gold="p", text="\\boxed{p+q}")]))
        with _watched() as peak:
            start = time.perf_counter()
            verdicts = verifier.judge(to_verify(items))
            seconds = time.perf_counter() - start
    return _Run(verdicts=verdicts, seconds=seconds, parent_mb=_parent_mb(), peak=peak)


def _parent_mb() -> float:
    """The most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def _watched() -> Iterator[_Peak]:
    """Looks at all child processes every 50 ms."""
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
    """What it shares with the process that forked it counts in full."""
    try:
        return process.memory_info().rss / _MEBIBYTE
    except psutil.NoSuchProcess:
        return 0.0
