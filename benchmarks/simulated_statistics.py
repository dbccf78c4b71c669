"""Coverage, false positive rate and power of the statistics, on policies with known pass rates.

The success probability of a simulated problem is drawn from a Beta distribution, 16 paths are
drawn with it, and the scores go through the functions of a real evaluation, thousands of times.
Printed for each setting: coverage of the intervals, rate of findings without a difference, and
rate of findings with one. Wilson's figures are exact sums over all outcomes.

    python -m benchmarks.simulated_statistics --runs 4000 --processes 2 --output statistics.json
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, stats

from benchmarks.lib.command_line import add_output, make_parser, write_results
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Interval
from pipeline_lib.study.statistics.intervals import (
    FEW_INFORMATIVE,
    DifferenceFinding,
    PairedDifference,
    num_informative,
    paired_difference,
    score_interval,
    wilson_interval,
)
from pipeline_lib.study.statistics.pass_at_k import pass_at_k

Floats = NDArray[np.float64]
Simulated = TypeVar("Simulated", "Coverage", "Findings")
NUM_PATHS = 16
LEVEL = 0.95
KS = (1, 4, 8)
SHAPES: Mapping[str, tuple[float, float]] = {
    "typical": (0.5, 1),
    "uniform": (1, 1),
    "all or nothing": (0.2, 0.2),
    "hard": (0.3, 3),
    "very hard": (0.1, 3),
    "all hard": (0.5, 10),
    "near 0": (0.05, 2),
    "easy": (3, 0.3),
    "all easy": (8, 0.4),
    "near 1": (2, 0.05),
}
"""Beta parameters of the chance of solving a problem."""
ENOUGH = 4 * FEW_INFORMATIVE
"""Intervals of means that rest on fewer problems are widened on purpose."""
_PASS = {k: np.array([pass_at_k(NUM_PATHS, c, k) for c in range(NUM_PATHS + 1)]) for k in KS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Coverage of the intervals in one setting."""

    shape: str
    num_problems: int
    k: int
    truth: float
    rests_on: float
    """Problems that the mean rests on, averaged over the runs; see `resampling.num_informative`."""
    runs: int
    held: int
    above: int
    """Intervals above the truth."""
    below: int
    width: float
    """Mean width."""

    @property
    def share(self) -> float:
        """Share of the intervals that hold the truth."""
        return self.held / self.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Findings about one difference over all runs."""

    shape: str
    num_problems: int
    k: int
    truth: float
    runs: int
    gains: int
    losses: int
    small_p: int
    """Sign-flip p-values of at most 0.05."""
    held: int
    """Paired intervals that hold the true difference."""


def scores(counts_P: NDArray[np.int64], k: int) -> Floats:
    """pass@k of problems by their numbers of right paths."""
    found: Floats = _PASS[k][counts_P]
    return found


def true_pass_at_k(a: float, b: float, k: int) -> float:
    """E[1 - (1 - p)^k] for p of Beta(a, b): the product of (b + i) / (a + b + i) is E[(1 - p)^k]."""
    return 1 - float(np.prod([(b + i) / (a + b + i) for i in range(k)]))


def coverage(shape: str, num_problems: int, k: int, *, runs: int, resamples: int) -> Coverage:
    """Evaluate one policy ``runs`` times on fresh problems."""
    a, b = SHAPES[shape]
    truth = true_pass_at_k(a, b, k)
    generator = np.random.default_rng([num_problems, k, *shape.encode()])
    above = below = 0
    width = telling = 0.0
    params = EvaluateParams(resamples=resamples, confidence_level=LEVEL)
    for run in range(runs):
        chance_P = generator.beta(a, b, size=num_problems)
        values_P = scores(generator.binomial(NUM_PATHS, chance_P), k)
        found = score_interval(values_P, params, seed=run)
        above += found.low > truth
        below += found.high < truth
        width += found.high - found.low
        telling += num_informative(values_P) if np.ptp(values_P) else 0
    return Coverage(
        shape=shape,
        num_problems=num_problems,
        k=k,
        truth=truth,
        rests_on=telling / runs,
        runs=runs,
        held=runs - int(above) - int(below),
        above=int(above),
        below=int(below),
        width=width / runs,
    )


def findings(
    shape: str, num_problems: int, k: int, *, ease: float, runs: int, resamples: int
) -> Findings:
    """Compare two policies ``runs`` times: probability p before, p^(1 / ease) after."""
    a, b = SHAPES[shape]
    truth = _true_gain(a, b, k, ease) if ease != 1 else 0.0
    generator = np.random.default_rng([num_problems, k, int(100 * ease), *shape.encode()])
    said: list[PairedDifference] = []
    params = EvaluateParams(resamples=resamples, confidence_level=LEVEL)
    for run in range(runs):
        chance_P = generator.beta(a, b, size=num_problems)
        base_P, trained_P = (
            scores(generator.binomial(NUM_PATHS, chances_P), k)
            for chances_P in (chance_P, chance_P ** (1 / ease))
        )
        said.append(paired_difference(base_P, trained_P, params, seed=run))
    return Findings(
        shape=shape,
        num_problems=num_problems,
        k=k,
        truth=truth,
        runs=runs,
        gains=sum(one.finding is DifferenceFinding.GAIN for one in said),
        losses=sum(one.finding is DifferenceFinding.SIGNIFICANTLY_LOWER for one in said),
        small_p=sum(one.p_value <= 1 - LEVEL for one in said),
        held=sum(one.interval.low <= truth <= one.interval.high for one in said),
    )


def _true_gain(a: float, b: float, k: int, ease: float) -> float:
    """E[(1 - p)^k - (1 - p^(1 / ease))^k], integrated over the quantiles of Beta(a, b)."""

    def gain(quantile: float) -> float:
        chance = float(stats.beta.ppf(quantile, a, b))
        return float((1 - chance) ** k - (1 - chance ** (1 / ease)) ** k)

    return float(integrate.quad(gain, 0, 1, limit=500)[0])


@functools.cache
def _wilson_interval(num_correct: int, num_problems: int) -> Interval:
    return wilson_interval(num_correct, num_problems, EvaluateParams(confidence_level=LEVEL))


def wilson_coverage(num_problems: int, chance: float) -> float:
    """Exact chance that Wilson's interval holds ``chance``."""
    counts = np.arange(num_problems + 1)
    weights = stats.binom.pmf(counts, num_problems, chance)
    bounds = [_wilson_interval(int(c), num_problems) for c in counts]
    held = [one.low <= chance <= one.high for one in bounds]
    return float(weights @ np.array(held, dtype=float))


def exact_tables() -> dict[str, list[dict[str, float]]]:
    """Coverage of Wilson's interval, exactly."""
    chances = np.arange(1, 100) / 100
    wilson = []
    for n in (20, 50, 100, 400):
        shares = np.array([wilson_coverage(n, float(chance)) for chance in chances])
        middle = shares[(chances >= 0.1) & (chances <= 0.9)]
        wilson.append(
            {
                "problems": n,
                "mean": float(shares.mean()),
                "lowest": float(shares.min()),
                "lowest_at": float(chances[shares.argmin()]),
                "lowest_10_to_90": float(middle.min()),
                "highest_10_to_90": float(middle.max()),
            }
        )
    return {"wilson": wilson}


def simulate(
    work: Callable[..., Simulated], settings: Sequence[tuple[object, ...]], **options: int
) -> list[Simulated]:
    """Run every setting over a pool of processes, in order."""
    processes = options.pop("processes")
    with ProcessPoolExecutor(processes) as pool:
        jobs = [pool.submit(work, *setting, **options) for setting in settings]
        return [job.result() for job in jobs]


def main() -> None:
    """Simulate, print the tables, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--problems", type=int, nargs="+", default=[50, 100, 400])
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    add_output(parser)
    arguments = parser.parse_args()
    options = {
        "runs": arguments.runs,
        "resamples": arguments.resamples,
        "processes": arguments.processes,
    }
    each = [(shape, n, k) for shape in arguments.shapes for n in arguments.problems for k in KS]
    covered = simulate(coverage, each, **options)
    print_coverage(covered)
    shapes = [shape for shape in PAIRED_SHAPES if shape in arguments.shapes]
    pairs = [(shape, n, k) for shape in shapes for n in arguments.problems for k in (1, 8)]
    null = simulate(null_findings, pairs, **options)
    print_findings("two equal policies", null)
    gains = simulate(gain_findings, pairs, **options)
    print_findings("a policy that got better", gains)
    exact = exact_tables()
    print_exact(exact)
    rows: dict[str, Sequence[Coverage | Findings]] = {
        "coverage": covered,
        "null": null,
        "gain": gains,
    }
    found = {name: [asdict(row) for row in table] for name, table in rows.items()}
    write_results(arguments.output, found | exact)


PAIRED_SHAPES = ("typical", "all or nothing", "hard", "very hard", "easy")


def null_findings(shape: str, num_problems: int, k: int, *, runs: int, resamples: int) -> Findings:
    """Findings between two equal policies."""
    return findings(shape, num_problems, k, ease=1, runs=runs, resamples=resamples)


def gain_findings(shape: str, num_problems: int, k: int, *, runs: int, resamples: int) -> Findings:
    """Findings when each probability p becomes p^(1 / 1.3)."""
    return findings(shape, num_problems, k, ease=1.3, runs=runs, resamples=resamples)


def print_coverage(rows: Sequence[Coverage]) -> None:
    """Print the coverage of every setting, then a summary."""
    print(
        f"{'difficulty':15}{'n':>5}{'k':>3}{'truth':>8}{'rests':>8}{'held %':>8}{'above':>7}",
        end="",
    )
    print(f"{'below':>7}{'width':>8}")
    for row in rows:
        shares = (row.share, row.above / row.runs, row.below / row.runs)
        mark = (
            "" if abs(row.share - LEVEL) <= 0.02 else "  wide" if row.share > LEVEL else "  SHORT"
        )
        print(
            f"{row.shape:15}{row.num_problems:5}{row.k:3}{row.truth:8.4f}{row.rests_on:8.1f}"
            f"{100 * shares[0]:8.1f}{100 * shares[1]:7.1f}{100 * shares[2]:7.1f}{row.width:8.3f}{mark}"
        )
    enough = [row for row in rows if row.rests_on >= ENOUGH]
    inside = sum(abs(row.share - LEVEL) <= 0.02 for row in enough)
    short = sum(row.share < LEVEL - 0.02 for row in rows)
    print(f"{short} of {len(rows)} settings: less than 93 %")
    print(
        f"{inside} of {len(enough)} settings with a mean that rests on {ENOUGH} or more problems: 95 +- 2 %"
    )


def print_findings(title: str, rows: Iterable[Findings]) -> None:
    """Print the rates of findings of every setting."""
    print(f"\n{title}, percent")
    print(
        f"{'difficulty':15}{'n':>5}{'k':>3}{'truth':>8}{'gain':>7}{'loss':>7}{'p<=.05':>8}{'held':>7}"
    )
    for row in rows:
        shares = [
            100 * count / row.runs for count in (row.gains, row.losses, row.small_p, row.held)
        ]
        print(
            f"{row.shape:15}{row.num_problems:5}{row.k:3}{row.truth:8.4f}"
            f"{shares[0]:7.1f}{shares[1]:7.1f}{shares[2]:8.1f}{shares[3]:7.1f}"
        )


def print_exact(tables: Mapping[str, list[dict[str, float]]]) -> None:
    """Print the exact figures."""
    for name, rows in tables.items():
        print(f"\n{name}, exact")
        for row in rows:
            print("  ".join(f"{key} {value:.4g}" for key, value in row.items()))


if __name__ == "__main__":
    main()
