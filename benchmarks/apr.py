"""The rate of supervised training on traces beside a bare loop.

`sft` trains a model of the default size on parallel traces by the stage (trainer, schedule, log, last
checkpoint), and by a bare loop that makes the same passes, losses and updates on the same steps and nothing
else. Each turn trains from the same weights, in this process, one side after the other. The loading of
model and libraries is not measured. Rates are tokens of sequences, prefixes included, a CPU second.

    python -m benchmarks.apr --output apr.json
    python -m benchmarks.apr --tokens 400000 --repeats 5
"""

import argparse
import math
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass

import torch
from torch.nn.utils import clip_grad_norm_
from transformers import get_scheduler

from benchmarks.lib.command_line import add_output, make_parser, write_results
from pipeline_lib.params.apr import AprDataParams, AprParams, AprSftParams
from pipeline_lib.systems.apr.data_folder import generate_data
from pipeline_lib.systems.apr.sft import (
    EncodedTraces,
    countdown_encoding,
    countdown_tokenizer,
    encode_traces,
    make_phase,
    plan_of,
    save_blank,
)
from pipeline_lib.train.bfloat16_products import bfloat16_products
from pipeline_lib.train.offline.bucketed_sft import (
    TokenRow,
    cut_passes,
    make_optimizer,
    pad,
    summed_loss,
)
from pipeline_lib.train.phases import TrainContext, run_phase
from pipeline_lib.train.trainer_settings import IGNORED
from pipeline_lib.train.weights.policies import load_policy

SEED = 7
WARM_UP_STEPS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One training, as both sides make it."""

    blank: pathlib.Path
    traces: EncodedTraces
    sft: AprSftParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Measurements of one training, without its first steps."""

    side: str
    tokens: int
    seconds: float
    cpu_seconds: float
    last_loss: float


class Meter:
    """Starts after the warm-up, and is read after the last step."""

    def __init__(self) -> None:
        self._start = self._cpu = 0.0
        self.seconds = self.cpu_seconds = self.last_loss = 0.0

    def step_done(self, step: int, loss: float) -> None:
        """Call after every step, which are counted from 1."""
        if step == WARM_UP_STEPS:
            self._start, self._cpu = time.perf_counter(), time.process_time()
        self.seconds = time.perf_counter() - self._start
        self.cpu_seconds = time.process_time() - self._cpu
        self.last_loss = loss


def by_stage(job: Job, meter: Meter) -> None:
    """The phase of `reasonloop apr train`."""

    def progress(step: int, _total: int, metrics: Mapping[str, float]) -> None:
        meter.step_done(step, metrics["loss"])

    with tempfile.TemporaryDirectory() as work:
        context = TrainContext(
            work=pathlib.Path(work),
            key="benchmark",
            seed=SEED,
            threads=job.sft.threads,
            progress=progress,
        )
        run_phase(make_phase(job.traces, job.sft, seed=SEED), str(job.blank), context)


def bare_loop(job: Job, meter: Meter) -> None:
    """Forward and backward passes, clipped gradients and updates."""
    policy = load_policy(str(job.blank))
    model = policy.model.train()
    optimizer = make_optimizer(model, lr=job.sft.lr, muon_lr=job.sft.muon_lr)
    steps = [*_steps(job)]
    warm = min(math.ceil(job.sft.warmup_fraction * len(steps)), len(steps) - 1)
    schedule = get_scheduler(
        "cosine", optimizer, num_warmup_steps=warm, num_training_steps=len(steps)
    )
    for number, rows in enumerate(steps, 1):
        passes = [
            pad([rows[place] for place in places], pad_id=policy.tokenizer.pad_token_id)
            for places in cut_passes(
                [len(row.ids_L) for row in rows], pass_tokens=job.sft.pass_tokens
            )
        ]
        count = sum(int((labels_BL[:, 1:] != IGNORED).sum()) for _, labels_BL in passes)
        total = 0.0
        for ids_BL, labels_BL in passes:
            with bfloat16_products(model, enabled=job.sft.precision != "float32"):
                loss = summed_loss(model, ids_BL, labels_BL) / count
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        meter.step_done(number, total)


SIDES: Mapping[str, Callable[[Job, Meter], None]] = {"stage": by_stage, "loop": bare_loop}


def measure(job: Job, *, repeats: int) -> list[Turn]:
    """All sides in turns."""
    tokens = sum(len(row.ids_L) for rows in list(_steps(job))[WARM_UP_STEPS:] for row in rows)
    turns = []
    for _ in range(repeats):
        for name, side in SIDES.items():
            meter = Meter()
            side(job, meter)
            turns.append(
                Turn(
                    side=name,
                    tokens=tokens,
                    seconds=meter.seconds,
                    cpu_seconds=meter.cpu_seconds,
                    last_loss=meter.last_loss,
                )
            )
    return turns


def show(turns: list[Turn]) -> None:
    """Print the median rates, and the share with its range over the turns."""
    rates = {
        name: [turn.tokens / turn.cpu_seconds for turn in turns if turn.side == name]
        for name in SIDES
    }
    print(f"{'side':8}{'tokens/CPU s':>14}{'last loss':>11}")
    for name, some in rates.items():
        losses = [turn.last_loss for turn in turns if turn.side == name]
        print(f"{name:8}{statistics.median(some):>14.0f}{losses[0]:>11.3f}")
    shares = [stage / loop for stage, loop in zip(rates["stage"], rates["loop"], strict=True)]
    print(f"share {statistics.median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})")


def make_job(folder: pathlib.Path, tokens: int, threads: int) -> Job:
    """Traces of 500 problems, and a blank model of the default size."""
    params = AprParams()
    data = AprDataParams(train_problems=500, valid_problems=1, test_problems=1)
    generate_data(data, folder / "data", seed=SEED, workers=1)
    sft = params.sft.model_copy(update={"tokens": tokens, "threads": threads})
    traces = encode_traces(
        folder / "data",
        "parallel",
        sft,
        encoding=countdown_encoding(data.countdown.num_numbers),
        window=params.model.window,
        seed=SEED,
    )
    blank = folder / "blank"
    save_blank(blank, params.model, SEED, threads, countdown_tokenizer(data.countdown.num_numbers))
    return Job(blank=blank, traces=traces, sft=sft)


def _steps(job: Job) -> Iterator[list[TokenRow]]:
    """The rows of each step, as the stage orders them."""
    plan = plan_of(job.traces, job.sft, seed=SEED)
    for places in plan.steps:
        yield [job.traces.rows[place] for place in places]


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--tokens", type=int, default=150_000, help="of a training")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of torch")
    add_output(parser)
    return parser.parse_args()


def main() -> None:
    """Measure, print, write."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        job = make_job(pathlib.Path(folder), arguments.tokens, arguments.threads)
        turns = measure(job, repeats=arguments.repeats)
    show(turns)
    settings = {key: value for key, value in vars(arguments).items() if key != "output"}
    write_results(arguments.output, {"settings": settings, "sft": [asdict(turn) for turn in turns]})


if __name__ == "__main__":
    main()
