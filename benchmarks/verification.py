"""What a math verdict costs, against math-verify called in process, in one run.

Every set of items is judged by both sides, each time in a fresh process and one after the other,
the sides in turns; medians of the repetitions are shown. Ours is an open verifier with one worker,
given the set as one batch, of which it asks equal questions once. math-verify parses gold and
completion and compares them, for every item, without its timeouts.
Starting and importing is not counted, and both sides have made the same few comparisons before.
Verdicts are compared one by one. Then: two Ray workers against one, and a batch with hostile items.

    python benchmarks/verification.py --data DATA --output verification.json
"""

import argparse
import json
import logging
import multiprocessing
import pathlib
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

from math_load import cpu_seconds, hostile_batch, ray_workers
from math_sets import Items, item_sets

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.verification.dispatch import Item, open_verifier
from pipeline_lib.verification.math.workers.worker_process import _WARM_UP

MAX_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Whether an answer counts as right (None: not judged), and what was taken for the answer."""

    right: bool | None
    answer: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One set judged once by one side."""

    judgements: list[Judgement]
    seconds: float
    cpu_seconds: float
    start_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Items of one set on which the sides differ in the same way."""

    name: str
    gold: str
    ours: str
    peers: str
    rule: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One set measured: medians of the repetitions."""

    name: str
    items: int
    per_second: float
    peer_per_second: float
    times: float
    times_by_cpu: float
    differing: int
    our_errors: int | None
    """Against what is right, where that is known."""
    peer_errors: int | None


def ours(name: str, data: pathlib.Path | None) -> Judged:
    """The open verifier of the product, with one worker."""
    items = [
        Item(gold=MathGold(answer=item.gold), text=item.text) for item in item_sets(data)[name]()
    ]
    start = time.perf_counter()
    with open_verifier(VerifyParams(), workers=1) as verifier:
        verifier.judge([Item(gold=MathGold(answer="p"), text="\\boxed{p+q}")])
        begin, cpu = time.perf_counter(), cpu_seconds()
        verdicts = verifier.judge(items)
        seconds, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
    judgements = [
        Judgement(right=v.lenient, answer=v.extracted or "", rule=v.rule or "") for v in verdicts
    ]
    return Judged(
        judgements=judgements,
        seconds=seconds,
        cpu_seconds=cpu,
        start_seconds=begin - start,
    )


def peers(name: str, data: pathlib.Path | None) -> Judged:
    """math-verify as it is meant to be called where its timeouts cannot be used."""
    items = item_sets(data)[name]()
    start = time.perf_counter()
    import math_verify

    logging.disable(logging.CRITICAL)  # it warns that its timeouts are off

    def judged(gold: str, text: str) -> bool:
        parsed_gold = math_verify.parse(f"${gold}$", parsing_timeout=None)
        parsed = math_verify.parse(text, parsing_timeout=None)
        return bool(math_verify.verify(parsed_gold, parsed, timeout_seconds=None))

    for gold, answer in _WARM_UP:
        judged(gold, f"${answer}$")
    begin, cpu = time.perf_counter(), cpu_seconds()
    judgements = [Judgement(right=judged(item.gold, item.text)) for item in items]
    return Judged(
        judgements=judgements,
        seconds=time.perf_counter() - begin,
        cpu_seconds=cpu_seconds() - cpu,
        start_seconds=begin - start,
    )


def in_fresh_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """The result of ``work`` in a process that has done nothing else."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(work, *arguments).result()


def compared(
    name: str, data: pathlib.Path | None, repeats: int
) -> tuple[Row, list[Difference], list[float]]:
    """One set by both sides; what differs; how long our side took to start."""
    runs: dict[Callable[..., Judged], list[Judged]] = {ours: [], peers: []}
    for repetition in range(repeats):
        for side in sorted(runs, key=lambda side: (side is ours) == bool(repetition % 2)):
            runs[side].append(in_fresh_process(side, name, data))
    items = item_sets(data)[name]()
    our_first, peer_first = runs[ours][0].judgements, runs[peers][0].judgements
    known = any(item.right is not None for item in items)
    differences = _differences(name, items, our_first, peer_first)
    seconds, peer_seconds = (_median(runs[side], "seconds") for side in (ours, peers))
    row = Row(
        name=name,
        items=len(items),
        per_second=len(items) / seconds,
        peer_per_second=len(items) / peer_seconds,
        times=peer_seconds / seconds,
        times_by_cpu=_median(runs[peers], "cpu_seconds") / _median(runs[ours], "cpu_seconds"),
        differing=sum(difference.count for difference in differences),
        our_errors=_errors(items, our_first) if known else None,
        peer_errors=_errors(items, peer_first) if known else None,
    )
    return row, differences, [run.start_seconds for run in runs[ours]]


def _median(runs: Sequence[Judged], figure: str) -> float:
    return statistics.median(getattr(run, figure) for run in runs)


def _errors(items: Items, judgements: Sequence[Judgement]) -> int:
    return sum(
        item.right is not None and judgement.right is not item.right
        for item, judgement in zip(items, judgements, strict=True)
    )


def _differences(
    name: str, items: Items, our_side: Sequence[Judgement], peer_side: Sequence[Judgement]
) -> list[Difference]:
    """The differing items, those with the same gold, answer and verdicts taken together."""
    kinds = Counter(
        Difference(
            name=name,
            gold=item.gold,
            ours=f"{_word(mine.right)} {mine.answer[:MAX_SHOWN_CHARS]!r}",
            peers=_word(other.right),
            rule=mine.rule,
            count=0,
        )
        for item, mine, other in zip(items, our_side, peer_side, strict=True)
        if mine.right is not other.right
    )
    return [replace(kind, count=count) for kind, count in kinds.most_common()]


def _word(right: bool | None) -> str:  # noqa: FBT001 - a value, not an option
    return {True: "right", False: "wrong", None: "not judged"}[right]


def report(rows: Sequence[Row], differences: Sequence[Difference]) -> None:
    """Print the table, and every difference."""
    head = ("ours/s", "peer/s", "times", "by CPU", "differ", "our errors", "peer errors")
    print(f"{'set':34}{'items':>7}" + "".join(f"{title:>13}" for title in head))
    for row in rows:
        errors = ["-" if e is None else str(e) for e in (row.our_errors, row.peer_errors)]
        figures = [f"{row.per_second:.0f}", f"{row.peer_per_second:.0f}", f"{row.times:.2f}"]
        figures += [f"{row.times_by_cpu:.2f}", str(row.differing), *errors]
        print(f"{row.name:34}{row.items:>7}" + "".join(f"{figure:>13}" for figure in figures))
    print("\ndifferences:" if differences else "\nno differences")
    for found in differences:
        print(
            f"  {found.count} x {found.name}: gold {found.gold!r}, ours {found.ours} by "
            f"{found.rule or 'no rule'}, math-verify {found.peers}"
        )


def main() -> None:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, help="reference data; only our own otherwise")
    parser.add_argument("--repeats", type=int, default=3, help="of each measurement")
    parser.add_argument("--sets", default="", help="only sets with this in their names")
    parser.add_argument("--only", choices=("speed", "ray", "hostile"), help="one part alone")
    parser.add_argument("--output", type=pathlib.Path, help="write the results as JSON")
    arguments = parser.parse_args()
    parts = [arguments.only] if arguments.only else ["speed", "ray", "hostile"]
    results: dict[str, Any] = {}
    if "speed" in parts:
        names = [name for name in item_sets(arguments.data) if arguments.sets in name]
        found = [compared(name, arguments.data, arguments.repeats) for name in names]
        rows = [row for row, _, _ in found]
        differences = [difference for _, several, _ in found for difference in several]
        report(rows, differences)
        start_s = statistics.median(seconds for _, _, several in found for seconds in several)
        print(f"\nopening a verifier, once for all that it judges: {start_s:.2f} s")
        results |= {
            "sets": [asdict(row) for row in rows],
            "differences": [asdict(difference) for difference in differences],
            "opening_s": start_s,
        }
    if "ray" in parts:
        results["ray"] = ray_workers(2 * arguments.repeats)
    if "hostile" in parts:
        results["hostile"] = in_fresh_process(hostile_batch)
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
