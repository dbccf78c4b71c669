"""Power that `reasonloop power` claims, against the rate at which the study finds a simulated gain.

The chances of both policies at a problem are Beta distributed, joined by a Gaussian copula; trainings add a normal shift.
Paths are drawn with these chances, and the scores go through the functions of a real evaluation, thousands of times.
The claim is made from the variances of the chances, which a recorded evaluation estimates.

    python -m benchmarks.simulated_power --runs 4000 --processes 2 --output power.json
"""

from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.lib.command_line import add_output, make_parser, write_results
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.study.power import Spread, powers
from pipeline_lib.study.statistics.intervals import (
    DifferenceFinding,
    paired_difference,
    t_interval,
)

Floats = NDArray[np.float64]
_POOL = 200_000
"""Problems that a setting draws from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Two policies and an evaluation."""

    accuracy: float
    gain: float
    share: float = 0.4
    """Share of the variance of one outcome that lies between problems."""
    copula: float = 0.9
    problems: int
    paths: int
    seeds: int = 1
    shift: float = 0.0
    """Standard deviation of the accuracy over trainings."""
    same_problems: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Chances and shares of gains."""

    claimed: float
    found: float
    claimed_over_seeds: float | None = None
    found_over_seeds: float | None = None


SETTINGS = (
    Setting(accuracy=0.5, gain=0.05, problems=200, paths=1),
    Setting(accuracy=0.5, gain=0.10, problems=200, paths=1),
    Setting(accuracy=0.5, gain=0.05, problems=200, paths=4),
    Setting(accuracy=0.5, gain=0.05, problems=200, paths=16),
    Setting(accuracy=0.3, gain=0.10, copula=0.7, problems=50, paths=4),
    Setting(accuracy=0.1, gain=0.04, share=0.3, problems=150, paths=4),
    Setting(accuracy=0.9, gain=0.04, problems=150, paths=4),
    Setting(accuracy=0.6, gain=0.03, share=0.8, copula=0.97, problems=200, paths=8),
    Setting(accuracy=0.05, gain=0.03, share=0.3, problems=200, paths=2),
    Setting(accuracy=0.7, gain=0.04, problems=500, paths=2),
    Setting(accuracy=0.5, gain=0.05, problems=100, paths=4, seeds=3, shift=0.01),
    Setting(accuracy=0.5, gain=0.08, problems=100, paths=4, seeds=3, shift=0.02),
    Setting(
        accuracy=0.5, gain=0.08, problems=100, paths=4, seeds=3, shift=0.02, same_problems=True
    ),
    Setting(
        accuracy=0.4, gain=0.05, problems=200, paths=2, seeds=5, shift=0.02, same_problems=True
    ),
)


def simulate(setting: Setting, *, runs: int, resamples: int) -> Rates:
    """The claim, and the rates over ``runs`` evaluations."""
    generator = np.random.default_rng([setting.problems, setting.paths, setting.seeds])
    before, after = _chances(setting, generator)
    params = EvaluateParams(resamples=resamples)
    found = found_over_seeds = 0
    for run in range(runs):
        scores = _evaluations(setting, before, after, generator)
        if setting.same_problems:
            pooled_AP: Floats = np.mean(scores, axis=0)
        else:
            pooled_AP = np.concatenate(scores, axis=1)
        one = paired_difference(pooled_AP[0], pooled_AP[1], params, seed=run)
        found += one.finding is DifferenceFinding.GAIN
        over_seeds = t_interval([float((after - base).mean()) for base, after in scores], params)
        found_over_seeds += over_seeds is not None and over_seeds.low > 0
    claimed, claimed_over_seeds = _claim(setting, before, after, params.confidence_level)
    return Rates(
        claimed=claimed,
        found=found / runs,
        claimed_over_seeds=claimed_over_seeds,
        found_over_seeds=found_over_seeds / runs if setting.seeds > 1 else None,
    )


def _chances(setting: Setting, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Of both policies at all problems, before any shift."""
    sizes = 1 / setting.share - 1
    correlation = [[1, setting.copula], [setting.copula, 1]]
    normal_PA = generator.multivariate_normal([0, 0], correlation, size=_POOL)
    before, after = (
        stats.beta.ppf(stats.norm.cdf(column), mean * sizes, (1 - mean) * sizes)
        for column, mean in zip(
            normal_PA.T, (setting.accuracy, setting.accuracy + setting.gain), strict=True
        )
    )
    return before, after


def _evaluations(
    setting: Setting, before: Floats, after: Floats, generator: np.random.Generator
) -> list[Floats]:
    """Of each seed the shares of right paths by policy and problem."""
    drawn = generator.integers(_POOL, size=setting.problems)
    found = []
    for _ in range(setting.seeds):
        if not setting.same_problems:
            drawn = generator.integers(_POOL, size=setting.problems)
        chances_AP = [
            before[drawn],
            (after[drawn] + setting.shift * generator.normal()).clip(0, 1),
        ]
        found.append(generator.binomial(setting.paths, chances_AP) / setting.paths)
    return found


def _claim(
    setting: Setting, before: Floats, after: Floats, level: float
) -> tuple[float, float | None]:
    shifts = setting.shift * stats.norm.ppf((np.arange(99) + 0.5) / 99)
    trained = [(after + shift).clip(0, 1) for shift in (shifts if setting.shift else (0.0,))]
    spread = Spread(
        between=float(np.mean([(one - before).var() for one in trained])),
        within=float(np.mean([before * (1 - before) + one * (1 - one) for one in trained])),
        seeds=float(np.var([one.mean() for one in trained])),
        same_problems=setting.same_problems,
    )
    return powers(
        float(np.mean([one.mean() for one in trained]) - before.mean()),
        spread,
        problems=setting.problems,
        paths=setting.paths,
        seeds=setting.seeds,
        level=level,
    )


def print_rates(rows: Iterable[tuple[Setting, Rates]]) -> None:
    """Print claimed and found power of every setting, in percent."""
    print(f"{'accuracy':>8}{'gain':>6}{'share':>6}{'copula':>7}{'problems':>9}{'paths':>6}", end="")
    print(f"{'seeds':>6}{'same':>6}{'claimed':>9}{'found':>7}{'by seeds':>10}{'found':>7}")
    for one, rates in rows:
        print(
            f"{one.accuracy:8}{one.gain:6}{one.share:6}{one.copula:7}{one.problems:9}{one.paths:6}"
            f"{one.seeds:6}{one.same_problems!s:>6}{100 * rates.claimed:9.1f}{100 * rates.found:7.1f}",
            end="",
        )
        if rates.claimed_over_seeds is not None and rates.found_over_seeds is not None:
            print(
                f"{100 * rates.claimed_over_seeds:10.1f}{100 * rates.found_over_seeds:7.1f}", end=""
            )
        print()


def main() -> None:
    """Simulate, print the table, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--resamples", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=2)
    add_output(parser)
    arguments = parser.parse_args()
    work = partial(simulate, runs=arguments.runs, resamples=arguments.resamples)
    with ProcessPoolExecutor(arguments.processes) as pool:
        rates = [*pool.map(work, SETTINGS)]
    rows = [*zip(SETTINGS, rates, strict=True)]
    print_rates(rows)
    found: list[dict[str, Any]] = [asdict(one) | asdict(rate) for one, rate in rows]
    write_results(arguments.output, found)


if __name__ == "__main__":
    main()
