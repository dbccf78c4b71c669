"""Cost of a math verdict against math-verify, scaling over Ray workers, and hostile answers.

Every item set is judged by both sides in fresh processes, in turns; medians of the repetitions are
shown. This library's side is an open verifier with one worker, given the set as one batch; equal
questions are judged once. math-verify parses and compares every item in process, without timeouts.
Starting and importing are not measured, and both sides warm up with the same comparisons. Verdicts
are compared one by one. Then: two Ray workers against one, and a batch with hostile items.

    python -m benchmarks.verification --data DATA --output verification.json
"""

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

from benchmarks.lib.command_line import add_output, make_parser, write_results
from benchmarks.lib.verification.item_sets import Items, item_sets
from benchmarks.lib.verification.load import cpu_seconds, hostile_batch, ray_workers
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.verify.dispatch import Item, open_verifier
from pipeline_lib.verify.math.worker_process import _WARM_UP

MAX_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Verdict on an answer (None: not judged) and the extracted answer."""

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
    """Items of a set on which the sides differ in the same way."""

    name: str
    gold: str
    ours: str
    peers: str
    rule: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Medians over the repetitions for one set."""

    name: str
    items: int
    per_second: float
    peer_per_second: float
    times: float
    times_by_cpu: float
    differing: int
    our_errors: int | None
    """Against the known truth, if there is one."""
    peer_errors: int | None


def judge_by_verifier(name: str, data: pathlib.Path | None) -> Judged:
    """Judge with an open verifier of one worker."""
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


def judge_by_math_verify(name: str, data: pathlib.Path | None) -> Judged:
    """Judge with math-verify as documented for callers that cannot use its timeouts."""
    items = item_sets(data)[name]()
    start = time.perf_counter()
    import math_verify  # noqa: PLC0415 - its import is part of the start time

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
    """The result of ``work`` in a fresh process."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(work, *arguments).result()


def compare(
    name: str, data: pathlib.Path | None, repeats: int
) -> tuple[Row, list[Difference], list[float]]:
    """Judge a set by both sides; the differences; start times of the verifier."""
    runs: dict[Callable[..., Judged], list[Judged]] = {
        judge_by_verifier: [],
        judge_by_math_verify: [],
    }
    for repetition in range(repeats):
        for side in sorted(
            runs, key=lambda side: (side is judge_by_verifier) == bool(repetition % 2)
        ):
            runs[side].append(in_fresh_process(side, name, data))
    items = item_sets(data)[name]()
    our_first, peer_first = (
        runs[judge_by_verifier][0].judgements,
        runs[judge_by_math_verify][0].judgements,
    )
    known = any(item.right is not None for item in items)
    differences = _differences(name, items, our_first, peer_first)
    seconds, peer_seconds = (
        _median(runs[side], "seconds") for side in (judge_by_verifier, judge_by_math_verify)
    )
    row = Row(
        name=name,
        items=len(items),
        per_second=len(items) / seconds,
        peer_per_second=len(items) / peer_seconds,
        times=peer_seconds / seconds,
        times_by_cpu=_median(runs[judge_by_math_verify], "cpu_seconds")
        / _median(runs[judge_by_verifier], "cpu_seconds"),
        differing=sum(difference.count for difference in differences),
        our_errors=_errors(items, our_first) if known else None,
        peer_errors=_errors(items, peer_first) if known else None,
    )
    return row, differences, [run.start_seconds for run in runs[judge_by_verifier]]


def _median(runs: Sequence[Judged], figure: str) -> float:
    values: list[float] = [getattr(run, figure) for run in runs]
    return statistics.median(values)


def _errors(items: Items, judgements: Sequence[Judgement]) -> int:
    return sum(
        item.right is not None and judgement.right is not item.right
        for item, judgement in zip(items, judgements, strict=True)
    )


def _differences(
    name: str, items: Items, our_side: Sequence[Judgement], peer_side: Sequence[Judgement]
) -> list[Difference]:
    """Differing items, grouped by gold, answer and verdicts."""
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
    """Print the table and every difference."""
    head = ("this/s", "peer/s", "ratio", "by CPU", "differ", "errors", "peer errors")
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
    parser = make_parser(__doc__)
    parser.add_argument(
        "--data", type=pathlib.Path, help="folder of reference data; default: generated items only"
    )
    parser.add_argument("--repeats", type=int, default=3, help="repetitions of each measurement")
    parser.add_argument("--sets", default="", help="substring of set names")
    parser.add_argument("--only", choices=("speed", "ray", "hostile"), help="run one part only")
    add_output(parser)
    arguments = parser.parse_args()
    parts = [arguments.only] if arguments.only else ["speed", "ray", "hostile"]
    results: dict[str, Any] = {}
    if "speed" in parts:
        names = [name for name in item_sets(arguments.data) if arguments.sets in name]
        found = [compare(name, arguments.data, arguments.repeats) for name in names]
        rows = [row for row, _, _ in found]
        differences = [difference for _, several, _ in found for difference in several]
        report(rows, differences)
        start_s = statistics.median(seconds for _, _, several in found for seconds in several)
        print(f"\nopening a verifier, once per process: {start_s:.2f} s")
        results |= {
            "sets": [asdict(row) for row in rows],
            "differences": [asdict(difference) for difference in differences],
            "opening_s": start_s,
        }
    if "ray" in parts:
        results["ray"] = ray_workers(2 * arguments.repeats)
    if "hostile" in parts:
        results["hostile"] = in_fresh_process(hostile_batch)
    write_results(arguments.output, results)


if __name__ == "__main__":
    main()
