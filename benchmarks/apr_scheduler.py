"""The scheduler of threads on a scripted clock: makespan against its lower bound, and our own cost per call.

1,000 parents, each with up to 15 children, random delays (exponential, mean 1 s) and failures (3 %). The
lower bound of the makespan is the longest chain, or all work over the draws in flight if that is longer.
Our own cost is the process's seconds, those of the script included.

    python -m benchmarks.apr_scheduler --parents 1000 --output apr_scheduler.json
"""

import time

from benchmarks.lib.command_line import add_output, make_parser, write_results
from benchmarks.lib.scripted_draws import run_on_scripted_clock
from benchmarks.lib.scripted_threads import (
    longest_chain_s,
    scripted_draws,
    scripted_roots,
    scripted_runtime,
)
from pipeline_lib.systems.apr.scheduler import run_rollouts
from pipeline_lib.systems.apr.threads import Rollout

BOUNDS = (16, 64, 256, 1024)


def measure(parents: int, bound: int) -> dict[str, float]:
    """Calls, makespan over its lower bound, and milliseconds per call."""
    draws = scripted_draws()

    async def run() -> list[Rollout]:
        return await run_rollouts(scripted_runtime(draws, bound=bound), scripted_roots(parents))

    start = time.process_time()
    _, makespan_s = run_on_scripted_clock(run())
    own_s = time.process_time() - start
    calls = draws.drawn.total()
    least_s = max(longest_chain_s(draws.delays_s), sum(draws.delays_s.values()) / bound)
    return {
        "bound": bound,
        "calls": calls,
        "makespan_s": makespan_s,
        "lower_bound_s": least_s,
        "ratio": makespan_s / least_s,
        "ms_per_call": 1000 * own_s / calls,
    }


def main() -> None:
    """Measure each bound, print the table, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--parents", type=int, default=1000)
    add_output(parser)
    arguments = parser.parse_args()
    rows = [measure(arguments.parents, bound) for bound in BOUNDS]
    print("| in flight | calls | makespan s | lower bound s | ratio | own ms per call |")
    print("| ---: " * 6 + "|")
    for row in rows:
        print(
            f"| {row['bound']:.0f} | {row['calls']:.0f} | {row['makespan_s']:.1f} | "
            f"{row['lower_bound_s']:.1f} | {row['ratio']:.3f} | {row['ms_per_call']:.3f} |"
        )
    write_results(arguments.output, rows)


if __name__ == "__main__":
    main()
