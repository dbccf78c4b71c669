"""The parts of a step of `reasonloop apr rl`: drawing rollouts, and learning from them.

Learning is a scoring pass by the start of training, then the updates, each a forward and a backward pass over
all sequences. The first step is not counted, nor is the loading of the model. Steps are those of the command:
with the same params and seed it draws the same rollouts.

    python -m benchmarks.apr_rl models/apr-parallel --data data/apr --output apr_rl.json
    python -m benchmarks.apr_rl models/apr-parallel --data data/apr --steps 9 --precision bfloat16
"""

import argparse
import pathlib
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from benchmarks.lib.command_line import add_output, make_parser, write_results
from pipeline_lib.engines.pretrained import load_tokenizer
from pipeline_lib.params.apr import AprRlParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.systems.apr.data_folder import problem_file
from pipeline_lib.systems.apr.model_record import read_record
from pipeline_lib.systems.apr.problem_lines import read_problems
from pipeline_lib.systems.apr.rl import ThreadRollouts, make_phase, prompt_rows
from pipeline_lib.systems.apr.tasks import task_of
from pipeline_lib.systems.apr.training_draws import ThreadDraws
from pipeline_lib.train.offline.bucketed_sft import cut_passes, padded_length
from pipeline_lib.train.phases import TrainContext, run_phase
from pipeline_lib.train.rollout_grpo.rollouts import RewardedRollout

SEED = 7


@dataclass(slots=True, kw_only=True)
class StepParts:
    """Measurements of one step."""

    drawn_tokens: int
    sequence_tokens: int
    """With prefixes, without padding."""
    padded_tokens: int
    draw_s: float
    draw_cpu_s: float
    learn_s: float = 0.0
    learn_cpu_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class TimedSource:
    """Implements RolloutSource: measures the draws of another one, and what follows each."""

    source: ThreadRollouts
    pass_tokens: int
    steps: list[StepParts] = field(default_factory=list)
    _learning: tuple[float, float] = (0.0, 0.0)

    def draw(
        self, prompts: Sequence[str], *, model: Any, tokenizer: Any, step: int
    ) -> list[RewardedRollout]:
        """As of the other source."""
        start, cpu = time.perf_counter(), time.process_time()
        rollouts = self.source.draw(prompts, model=model, tokenizer=tokenizer, step=step)
        self._learning = time.perf_counter(), time.process_time()
        rows = [row for one in rollouts for row in one.sequences]
        lengths = [len(row.ids_L) for row in rows]
        passes = cut_passes(lengths, pass_tokens=self.pass_tokens)
        self.steps.append(
            StepParts(
                drawn_tokens=sum(len(row.ids_L) - row.loss_from for row in rows),
                sequence_tokens=sum(lengths),
                padded_tokens=sum(
                    len(places) * padded_length(lengths[places[0]]) for places in passes
                ),
                draw_s=self._learning[0] - start,
                draw_cpu_s=self._learning[1] - cpu,
            )
        )
        return rollouts

    def step_done(self, _step: int, _total: int, _metrics: Mapping[str, float]) -> None:
        """Call behind the updates of a step."""
        start, cpu = self._learning
        self.steps[-1].learn_s = time.perf_counter() - start
        self.steps[-1].learn_cpu_s = time.process_time() - cpu


def measure(model: pathlib.Path, data: pathlib.Path, rl: AprRlParams) -> list[StepParts]:
    """The parts of all steps but the first."""
    record = read_record(model)
    problems = read_problems(problem_file(data, "train"))
    task = task_of(record, load_tokenizer(str(model)), VerifyParams())
    rows = prompt_rows(model, record, problems, rl, task)
    source = TimedSource(
        source=ThreadRollouts(
            rollouts_of=ThreadDraws(
                problems={row["prompt"]: one for row, one in zip(rows, problems, strict=True)},
                task_of=partial(task_of, record, verify=VerifyParams()),
            ),
            rl=rl,
            window=record.window,
            seed=SEED,
        ),
        pass_tokens=rl.pass_tokens,
    )
    with tempfile.TemporaryDirectory() as work:
        context = TrainContext(
            work=pathlib.Path(work),
            key="benchmark",
            seed=SEED,
            threads=rl.threads,
            progress=source.step_done,
        )
        run_phase(make_phase(rows, source, rl, kind=record.kind), str(model), context)
    return source.steps[1:]


def show(steps: Sequence[StepParts]) -> None:
    """Print medians over the steps, with rates a CPU second."""

    def median(name: str) -> float:
        return float(statistics.median(getattr(step, name) for step in steps))

    print(f"{'part':8}{'tokens':>10}{'seconds':>10}{'CPU s':>8}{'tokens/CPU s':>14}")
    for part, tokens in (("draw", "drawn_tokens"), ("learn", "sequence_tokens")):
        rate = statistics.median(
            getattr(step, tokens) / getattr(step, f"{part}_cpu_s") for step in steps
        )
        print(
            f"{part:8}{median(tokens):>10.0f}{median(f'{part}_s'):>10.1f}"
            f"{median(f'{part}_cpu_s'):>8.1f}{rate:>14.0f}"
        )
    padding = statistics.median(step.padded_tokens / step.sequence_tokens - 1 for step in steps)
    print(f"padding adds {padding:.0%} to the tokens of a pass over all sequences")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    defaults = AprRlParams()
    parser = make_parser(__doc__)
    parser.add_argument("model", type=pathlib.Path, help="folder of `reasonloop apr train`")
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=5, help="counted steps")
    parser.add_argument("--pass-tokens", type=int, default=defaults.pass_tokens)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default=defaults.precision)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of torch")
    add_output(parser)
    return parser.parse_args()


def main() -> None:
    """Measure, print, write."""
    arguments = parse_arguments()
    rl = AprRlParams(
        precision=arguments.precision,
        steps=arguments.steps + 1,
        pass_tokens=arguments.pass_tokens,
        threads=arguments.threads,
        checkpoint_every=arguments.steps + 1,
    )
    steps = measure(arguments.model, arguments.data, rl)
    show(steps)
    settings = {key: str(value) for key, value in vars(arguments).items() if key != "output"}
    write_results(arguments.output, {"settings": settings, "steps": [asdict(one) for one in steps]})


if __name__ == "__main__":
    main()
