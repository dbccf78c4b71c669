"""Held-out loss after full fine-tuning of a model that is stored in bfloat16, by the precision of its weights.

The model is a small Countdown policy made here and rounded to bfloat16. Sides, each over rounds of SFT from the
folder that the round before has published:

- `float32`: the same values, stored in float32.
- `now`: stored in bfloat16.
- `rounded`: stored in bfloat16, each published folder rounded to bfloat16 (on a CPU until 2026-11-25).
- `bfloat16`: weights and moments in bfloat16 in training, too (on a GPU until 2026-11-25).

    python -m benchmarks.training_precision --rates 1e-6 1e-5 1e-4 --rounds 2 --output precision.json
"""

import argparse
import pathlib
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from transformers import AutoModelForCausalLM, TrainerCallback
from typing_extensions import override

from benchmarks.lib.command_line import add_output, make_parser, write_results
from pipeline_lib.params.paths import BootstrapParams, CountdownParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.train.bootstrap import make_base_policy
from pipeline_lib.train.offline import sft
from pipeline_lib.train.phases import Phase, Row, Schedule, TrainContext, run_phase
from pipeline_lib.train.trainer_settings import IGNORED
from pipeline_lib.train.weights.policies import FULL, load_policy

SEED = 7
SIDES = ("float32", "now", "rounded", "bfloat16")
_TRAINED, _HELD_OUT = 600, 100
_BATCH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The held-out loss of one side, in nats per token of a completion."""

    rate: float
    side: str
    losses: Sequence[float]
    """Before the first round, then of each published folder, loaded for training."""


class _Round(TrainerCallback):
    """Rounds the weights before the first step; AdamW's moments have their precision."""

    @override
    def on_train_begin(self, *_: Any, model: Any = None, **more: Any) -> None:
        for weight in model.parameters():
            weight.data = weight.data.bfloat16()


def store(model: pathlib.Path, folder: pathlib.Path, dtype: torch.dtype) -> pathlib.Path:
    """A copy of ``model`` with weights rounded to bfloat16, stored in ``dtype``."""
    shutil.copytree(model, folder, dirs_exist_ok=True)
    rounded: Any = AutoModelForCausalLM.from_pretrained(model).bfloat16()
    rounded.to(dtype).save_pretrained(folder)
    return folder


def held_out_loss(folder: pathlib.Path, rows: Sequence[Row]) -> float:
    """Mean next-token loss of the completions, in float32."""
    policy = load_policy(str(folder))
    total, count = 0.0, 0
    with torch.inference_mode():
        for row in rows:
            tokens = sft.tokenize(row, policy.tokenizer)
            logits_TV = policy.model(torch.tensor([tokens["input_ids"]])).logits[0, :-1]
            labels_T = torch.tensor(tokens["labels"][1:])
            total += float(
                torch.nn.functional.cross_entropy(logits_TV.double(), labels_T, reduction="sum")
            )
            count += sum(label != IGNORED for label in tokens["labels"][1:])
    return total / count


def train(
    side: str,
    start: pathlib.Path,
    work: pathlib.Path,
    rows: Sequence[Row],
    *,
    rate: float,
    steps: int,
) -> pathlib.Path:
    """A round of SFT from ``start``; the published folder."""
    make = sft.trainer_factory(rows, lora=FULL)

    def make_trainer(policy: Any, settings: Any) -> Any:
        trainer = make(policy, settings)
        if side == "bfloat16":
            trainer.add_callback(_Round())
        return trainer

    schedule = Schedule(
        steps=steps,
        lr=rate,
        batch_size=_BATCH,
        micro_batch_size=_BATCH,
        shape="cosine",
        warmup_fraction=0.05,
        checkpoint_every=steps,
    )
    phase = Phase(name="sft", schedule=schedule, make_trainer=make_trainer)
    context = TrainContext(work=work, key=side, seed=SEED, threads=1)
    published = run_phase(phase, str(start), context)
    return store(published, work / "rounded", torch.bfloat16) if side == "rounded" else published


def main() -> None:
    """Train all sides and print their losses."""
    parser = make_parser(__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-5])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20, help="of each round")
    parser.add_argument("--base-steps", type=int, default=150, help="of the model from scratch")
    add_output(parser)
    args = parser.parse_args()
    problems = generate(CountdownParams(), seed=SEED, count=_TRAINED + _HELD_OUT)
    rows = solution_rows(problems, None)
    with tempfile.TemporaryDirectory() as scratch:
        results = list(run(pathlib.Path(scratch), rows, args))
    write_results(args.output, [asdict(result) for result in results])


def run(scratch: pathlib.Path, rows: Sequence[Row], args: argparse.Namespace) -> list[Result]:
    """One result for each rate and side."""
    torch.set_num_threads(1)
    base = scratch / "base"
    params = BootstrapParams(steps=args.base_steps, threads=1)
    make_base_policy(rows[:_TRAINED], base, params=params, seed=SEED, key="base")
    results = []
    for rate in args.rates:
        for side in SIDES:
            folder = scratch / f"{rate}-{side}"
            stored = torch.float32 if side == "float32" else torch.bfloat16
            start = store(base, folder / "0", stored)
            losses = [held_out_loss(start, rows[_TRAINED:])]
            for number in range(1, args.rounds + 1):
                work = folder / str(number)
                start = train(side, start, work, rows[:_TRAINED], rate=rate, steps=args.steps)
                losses.append(held_out_loss(start, rows[_TRAINED:]))
            falls = ", ".join(f"{losses[0] - loss:.5f}" for loss in losses[1:])
            print(f"rate {rate:g}, {side}: {losses[0]:.5f}, falls by {falls}", flush=True)
            results.append(Result(rate=rate, side=side, losses=losses))
    return results


if __name__ == "__main__":
    main()
