"""Accuracy of the symbolic searches of adaptive parallel reasoning, beside the published figures.

`published` takes 4 numbers of 1..99 and targets of 10..100, with the beams of the published data and with
a spawn at every chance. Problems are drawn in two ways: as published (a target, then numbers until they
solve it; in the order drawn), and by the generator of this repository (sorted numbers).

`compact` takes 3 numbers of 1..20, values up to 100, and shows what the traces solve that fit a window.
Tokens are those of the traces' tokenizer.

    python -m benchmarks.apr_search --problems 3000 --output apr_search.json
"""

import argparse
import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from benchmarks.lib.command_line import add_output, make_parser, write_results
from pipeline_lib.kinds.countdown import CountdownGold, reachable
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.paths import CountdownParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.seeding import child_random
from pipeline_lib.study.statistics.intervals import wilson_interval
from pipeline_lib.systems.apr.countdown.lines import Trace
from pipeline_lib.systems.apr.countdown.tokens import count_tokens
from pipeline_lib.systems.apr.countdown.traces import (
    CompactSearch,
    compact_parallel_trace,
    compact_serial_trace,
    published_parallel_trace,
    published_serial_trace,
)

Search = Callable[[CountdownGold, random.Random], Trace]
CHILDREN = (9, 7, 5, 3)
WINDOWS = (133, 160, 192, 256)
SUB_BEAM = 4
MAX_VALUE = 100


def adaptive(gold: CountdownGold, draw: random.Random) -> Trace:
    """A trace of the published parallel data."""
    beam = draw.randint(1, 10)
    sub_beam = draw.randint(beam, 15)
    return published_parallel_trace(
        gold.numbers, gold.target, beam=beam, sub_beam=sub_beam, branch=0.9, draw=draw
    )


def stream_of_search(gold: CountdownGold, draw: random.Random) -> Trace:
    """A trace of the published serial data."""
    beam = draw.randint(1, 5)
    return published_serial_trace(gold.numbers, gold.target, beam=beam, branch=0.5, draw=draw)


def always_spawning(beam: int) -> Search:
    """A parallel search that spawns at every chance."""
    return lambda gold, draw: published_parallel_trace(
        gold.numbers, gold.target, beam=beam, sub_beam=15, branch=1.0, draw=draw
    )


SEARCHES: Mapping[str, tuple[Search, float]] = {
    "APR": (adaptive, 70.0),
    "SoS+": (stream_of_search, 50.1),
    "always spawning, 5/15": (always_spawning(5), 76.7),
    "always spawning, 10/15": (always_spawning(10), 88.1),
    "always spawning, 15/15": (always_spawning(15), 97.6),
}
"""Searches with the published share of solved problems, in percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One search on one set of problems."""

    search: str
    solved: float
    """Percent."""
    low: float
    high: float
    expected: float | None = None
    children: float | None = None
    """Mean number of children of a spawn."""
    drawn: float | None = None
    critical: float | None = None


def as_published(count: int, seed: int) -> list[CountdownGold]:
    """Targets with numbers drawn until they solve it."""
    return [_solvable(child_random(seed, "published problem", index)) for index in range(count)]


def _solvable(draw: random.Random) -> CountdownGold:
    target = draw.randint(10, 100)
    while True:
        numbers = tuple(draw.randint(1, 99) for _ in range(4))
        if target in reachable(tuple(sorted(numbers))):
            return CountdownGold(numbers=numbers, target=target)


def of_generator(params: CountdownParams, count: int, seed: int) -> list[CountdownGold]:
    """Problems of this repository's generator."""
    golds = [problem.gold for problem in generate(params, seed=seed, count=count)]
    return [gold for gold in golds if isinstance(gold, CountdownGold)]


def check_published(golds: Sequence[CountdownGold], seed: int) -> list[Row]:
    """All published searches on ``golds``."""
    rows = []
    for name, (search, expected) in SEARCHES.items():
        traces = [search(gold, child_random(seed, name, index)) for index, gold in enumerate(golds)]
        spawned = [count for trace in traces for count in trace.spawned]
        rows.append(
            _row(
                name,
                [trace.solved for trace in traces],
                expected=expected,
                children=statistics.mean(spawned) if spawned else None,
            )
        )
    return rows


def ceilings(golds: Sequence[CountdownGold]) -> list[Row]:
    """Compact searches by breadth and window; a trace that exceeds the window does not count.

    The last rows are serial searches with the critical path of each parallel one.
    """
    rows, paths = [], []
    for children in CHILDREN:
        traces = [compact_parallel_trace(_search(gold, children)) for gold in golds]
        lengths = [_lengths(trace) for trace in traces]
        critical = statistics.mean(map(_critical, lengths))
        paths.append(round(critical))
        rows.append(
            _row(
                f"parallel, {children} children, window {WINDOWS[-1]}",
                [
                    trace.solved and max(whole for whole, _ in some) <= WINDOWS[-1]
                    for trace, some in zip(traces, lengths, strict=True)
                ],
                drawn=statistics.mean(sum(drawn for _, drawn in some) for some in lengths),
                critical=critical,
            )
        )
    traces = [compact_serial_trace(_search(gold, SUB_BEAM)) for gold in golds]
    wholes = [_lengths(trace)[0] for trace in traces]
    for window in WINDOWS:
        fits = [
            trace.solved and whole <= window
            for trace, (whole, _) in zip(traces, wholes, strict=True)
        ]
        drawn = statistics.mean(drawn - max(0, whole - window) for whole, drawn in wholes)
        rows.append(_row(f"serial, window {window}", fits, drawn=drawn, critical=drawn))
    for path in paths:
        fits = [
            trace.solved and drawn <= path for trace, (_, drawn) in zip(traces, wholes, strict=True)
        ]
        drawn = statistics.mean(min(drawn, path) for _, drawn in wholes)
        rows.append(_row(f"serial, {path} drawn tokens", fits, drawn=drawn, critical=drawn))
    return rows


def _search(gold: CountdownGold, beam: int) -> CompactSearch:
    return CompactSearch(
        numbers=gold.numbers,
        target=gold.target,
        beam=beam,
        sub_beam=SUB_BEAM,
        max_value=MAX_VALUE,
    )


def _lengths(trace: Trace) -> list[tuple[int, int]]:
    """Tokens of each sequence, whole and drawn, with the end token."""
    return [
        (
            count_tokens(one.prefix + one.output, num_numbers=3) + 1,
            count_tokens(one.output, num_numbers=3) + 1,
        )
        for one in trace.sequences
    ]


def _critical(lengths: Sequence[tuple[int, int]]) -> int:
    """Drawn tokens of both segments of the parent and of its longest child."""
    before, *children, after = (drawn for _, drawn in lengths)
    return before + after + max(children)


def _row(
    search: str,
    solved: Sequence[bool],
    *,
    expected: float | None = None,
    children: float | None = None,
    drawn: float | None = None,
    critical: float | None = None,
) -> Row:
    found = wilson_interval(sum(solved), len(solved), EvaluateParams())
    return Row(
        search=search,
        solved=100 * found.value,
        low=100 * found.low,
        high=100 * found.high,
        expected=expected,
        children=children,
        drawn=drawn,
        critical=critical,
    )


def show(title: str, rows: Iterable[Row]) -> None:
    """Print one table."""
    print(
        f"\n{title}\n{'search':38}{'solved %':>9}{'95 %':>15}{'published':>11}{'children':>10}"
        f"{'drawn':>8}{'critical':>10}"
    )
    for row in rows:
        further = (row.expected, row.children, row.drawn, row.critical)
        cells = ["-" if value is None else f"{value:.1f}" for value in further]
        interval = f"{row.low:.1f} to {row.high:.1f}"
        print(
            f"{row.search:38}{row.solved:>9.1f}{interval:>15}"
            f"{cells[0]:>11}{cells[1]:>10}{cells[2]:>8}{cells[3]:>10}"
        )


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--problems", type=int, default=3000, help="of each set")
    parser.add_argument("--seed", type=int, default=7)
    add_output(parser)
    return parser.parse_args()


def main() -> None:
    """Search, print, write."""
    arguments = parse_arguments()
    count, seed = arguments.problems, arguments.seed
    four = CountdownParams(num_numbers=4, high=99, test_number_sets=0)
    tables = {
        "published, problems drawn as published": check_published(as_published(count, seed), seed),
        "published, problems of the generator": check_published(
            of_generator(four, count, seed), seed
        ),
        "compact": ceilings(of_generator(CountdownParams(), count, seed)),
    }
    for title, rows in tables.items():
        show(title, rows)
    results = {title: [asdict(row) for row in rows] for title, rows in tables.items()}
    write_results(arguments.output, {"problems": count, "seed": seed, "tables": results})


if __name__ == "__main__":
    main()
