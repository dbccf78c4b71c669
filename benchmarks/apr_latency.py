"""Wall-clock of a served parallel model and of a served serial one, at the two nearest accuracies that they reach.

Each model is served by the engine of ``--engine``, one after the other. On the valid problems every condition of both
is drawn greedily; the pair of a parallel and a serial condition whose accuracies are nearest is timed, and both
accuracies are printed. A question is timed from its first request to its last token, alone and with ``--at-once`` others
in flight. The mean number of draws in flight is the batch that the engine has: threads lower the latency as long as
it draws several sequences in the time of one.

Some 20 minutes of two cores for the models of `reasonloop apr run` with vLLM.

    python -m benchmarks.apr_latency models/apr-parallel models/apr-serial --data data/apr --engine vllm
"""

import argparse
import asyncio
import itertools
import pathlib
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from benchmarks.lib.command_line import add_output, make_parser, write_results
from pipeline_lib.engines.chat_model import Completion, Decoding, Draws
from pipeline_lib.engines.client.session import gather_all
from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.records import Problem
from pipeline_lib.systems.apr.data_folder import problem_file
from pipeline_lib.systems.apr.evaluation.plans import EvaluationSetting, Plan, make_plans
from pipeline_lib.systems.apr.evaluation.problem_source import ProblemSource
from pipeline_lib.systems.apr.model_record import read_record
from pipeline_lib.systems.apr.problem_lines import read_problems
from pipeline_lib.systems.apr.runtime import Runtime, open_draws
from pipeline_lib.systems.apr.scheduler import run_rollout
from pipeline_lib.systems.apr.threads import Rollout, Root

SEED = 7


@dataclass(slots=True, kw_only=True)
class TimedDraws:
    """Draws of an engine, with the seconds that all of them were in flight. Implements Draws."""

    inner: Draws
    seconds: float = field(init=False, default=0.0)

    @property
    def names_stops(self) -> bool:
        """As of the engine."""
        return self.inner.names_stops

    async def draw(self, prompt: str, seed: int, decoding: Decoding) -> Completion:
        """As of the engine."""
        start = time.perf_counter()
        try:
            return await self.inner.draw(prompt, seed, decoding)
        finally:
            self.seconds += time.perf_counter() - start


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One condition of a model with a number of questions in flight."""

    model: str
    condition: str
    accuracy: float
    """In this timing, greedy."""
    at_once: int
    latency_s: float
    """Median over questions."""
    questions_per_s: float
    batch: float
    """Mean number of draws in flight."""
    drawn: float
    """Mean tokens of a question."""
    critical: float


def time_plan(plan: Plan, *, at_once: int) -> Timing:
    """Draw the problems of a plan at its server, ``at_once`` of them in flight."""
    problems = {problem.id: problem for problem in plan.problems}
    rollouts, latencies, wall_s, busy_s = asyncio.run(_run(plan, at_once))
    judged = plan.model.task.judge(rollouts, problems)
    return Timing(
        model=plan.chosen.name,
        condition=plan.chosen.condition or "none",
        accuracy=statistics.fmean(not isinstance(one, str) and one.is_right for one in judged),
        at_once=at_once,
        latency_s=statistics.median(latencies),
        questions_per_s=len(rollouts) / wall_s,
        batch=busy_s / wall_s,
        drawn=statistics.fmean(one.cost.completion_tokens for one in rollouts),
        critical=statistics.fmean(one.cost.critical_tokens for one in rollouts),
    )


async def _run(plan: Plan, at_once: int) -> tuple[list[Rollout], list[float], float, float]:
    model, latencies = plan.model, []
    questions = asyncio.Semaphore(at_once)
    async with open_draws(model.engine, encode=model.tokens.encode) as plain:
        draws = TimedDraws(inner=plain)
        runtime = Runtime(
            grammar=model.task.grammar,
            draws=draws,
            wire=model.task.wire,
            decoding=Decoding(temperature=0.0, max_new_tokens=model.record.window),
            slots=asyncio.Semaphore(256),
            seed=SEED,
            tokens=model.tokens,
            window=model.record.window,
        )

        async def one(root: Root) -> Rollout:
            async with questions:
                start = time.perf_counter()
                rollout = await run_rollout(runtime, root)
                latencies.append(time.perf_counter() - start)
                return rollout

        start = time.perf_counter()
        rollouts = await gather_all([one(root) for root in plan.roots(plan.problems)])
    return rollouts, latencies, time.perf_counter() - start, draws.seconds


def plans_at(folder: pathlib.Path, problems: Sequence[Problem], serve: ServeParams) -> list[Plan]:
    """A plan for each condition that a model was trained on."""
    record = read_record(folder)
    amounts = record.trained_amounts
    setting = EvaluationSetting(
        children=amounts if record.kind == "parallel" else (),
        tokens=amounts if record.kind == "serial" else (),
        temperatures=(0.0,),
        samples=1,
        first_success=False,
        serve=serve,
        evaluate=EvaluateParams(),
        verify=VerifyParams(),
        seed=SEED,
    )
    return make_plans({str(folder): folder}, ProblemSource(problems=problems), setting)


def nearest(parallel: Sequence[Timing], serial: Sequence[Timing]) -> tuple[Timing, Timing]:
    """The pair of conditions whose accuracies differ least; of equal ones the pair of the shortest critical paths."""
    return min(
        itertools.product(parallel, serial),
        key=lambda pair: (
            abs(pair[0].accuracy - pair[1].accuracy),
            pair[0].critical + pair[1].critical,
        ),
    )


def show(timings: Sequence[Timing]) -> None:
    """Print a table."""
    print(
        f"{'model':32} {'condition':22} {'right':>6} {'at once':>7} {'latency':>9} {'per s':>6} batch"
    )
    for one in timings:
        print(
            f"{one.model[-32:]:32} {one.condition:22} {one.accuracy:6.1%} {one.at_once:7} "
            f"{one.latency_s:8.3f}s {one.questions_per_s:6.2f} {one.batch:5.1f}"
        )


def parse_arguments() -> argparse.Namespace:
    """The options."""
    parser = make_parser(__doc__)
    parser.add_argument("parallel", type=pathlib.Path)
    parser.add_argument("serial", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--engine", default="embedded")
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--port", type=int, default=8361)
    add_output(parser)
    return parser.parse_args()


def main() -> None:
    """Sweep both models, then time the nearest pair."""
    arguments = parse_arguments()
    problems = read_problems(problem_file(arguments.data, "valid"))[: arguments.problems]
    swept: dict[pathlib.Path, list[Timing]] = {}
    timed: dict[tuple[pathlib.Path, str, int], Timing] = {}
    for folder in (arguments.parallel, arguments.serial):
        started = ServeParams(engine=arguments.engine, port=arguments.port)
        with (
            tempfile.TemporaryDirectory() as logs,
            serving_engine(started, model=str(folder), log_folder=pathlib.Path(logs)),
        ):
            at = f"http://127.0.0.1:{arguments.port}/v1"
            served = ServeParams(engine="url", url=at, tokenizer=str(folder))
            for plan in plans_at(folder, problems, served):
                time_plan(plan, at_once=arguments.at_once)  # warms the engine up
                for at_once in (1, arguments.at_once):
                    timing = time_plan(plan, at_once=at_once)
                    timed[folder, timing.condition, at_once] = timing
                    if at_once == 1:
                        swept.setdefault(folder, []).append(timing)
    show([*itertools.chain.from_iterable(swept.values())])
    pair = nearest(swept[arguments.parallel], swept[arguments.serial])
    print("the nearest accuracies:")
    chosen = [
        timed[folder, one.condition, at_once]
        for folder, one in zip((arguments.parallel, arguments.serial), pair, strict=True)
        for at_once in (1, arguments.at_once)
    ]
    show(chosen)
    results = {"swept": {str(k): [asdict(t) for t in v] for k, v in swept.items()}}
    write_results(arguments.output, results | {"chosen": [asdict(one) for one in chosen]})


if __name__ == "__main__":
    main()
