"""One side of `benchmarks.training` in a process: a trainer that pauses after every repetition.

    python -m benchmarks.lib.training.sides SIDE < job.json

It prints "ready" after the warm-up and measurements as JSON after each repetition, and then waits
for a line.
"""

import json
import pathlib
import resource
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback, get_scheduler
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer
from typing_extensions import override

from benchmarks.lib.training.cases import ENDS, SEED, Case, make_problems, prompt_rows
from pipeline_lib.determinism import trainer_seed
from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.train import LoraParams, Method, TrainParams
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.train.offline import sft
from pipeline_lib.train.online import grpo
from pipeline_lib.train.online.live_rollouts import LiveRollouts
from pipeline_lib.train.online.rewards import Rewards, make_verified_reward
from pipeline_lib.train.online.rollouts import make_rollout_func
from pipeline_lib.train.phases import Phase, Row, Schedule, TrainContext, order_rows, run_phase
from pipeline_lib.train.trainer_settings import TrainerSettings, silence_libraries
from pipeline_lib.train.weights.policies import load_policy
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.dispatch import Item, Verifier, open_verifier

LR = {"grpo": 5e-5, "sft": 2e-3}
PHASE = "benchmark"
WARM_UP_STEPS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The workload of a side."""

    case: Case
    model: str
    work: str
    repeats: int
    threads: int

    @property
    def steps(self) -> int:
        """Optimizer steps, including the warm-up."""
        return WARM_UP_STEPS + self.repeats * self.case.steps

    @property
    def sequences(self) -> int:
        """Paths, or rows, per step."""
        return self.case.batch_size * (self.case.group_size or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Measurements of one repetition."""

    seconds: float
    cpu_seconds: float
    tokens: float
    """Tokens sampled, or trained on."""
    losses: list[float]
    peak_mib: float
    """Peak memory of the process so far."""


class Meter:
    """Measures repetitions, without the pauses between them."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._tokens, self._losses = 0.0, list[float]()
        self._start = self._cpu = 0.0

    def step_done(self, step: int, *, tokens: float, loss: float) -> None:
        """Call after every step; returns when the next one may start."""
        self._tokens += tokens
        self._losses.append(loss)
        if (step - WARM_UP_STEPS) % self._job.case.steps:
            return
        if step == WARM_UP_STEPS:
            print("ready", flush=True)
        else:
            block = Block(
                seconds=time.perf_counter() - self._start,
                cpu_seconds=time.process_time() - self._cpu,
                tokens=self._tokens,
                losses=self._losses,
                peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            )
            print(json.dumps(asdict(block)), flush=True)
        if step < self._job.steps:
            sys.stdin.readline()
        self._tokens, self._losses = 0.0, []
        self._start, self._cpu = time.perf_counter(), time.process_time()


def _run_phase(
    job: Job,
    make_trainer: Any,
    meter: Meter,
    *,
    tokens: Callable[[int, Mapping[str, float]], float],
) -> None:
    """Run a phase as `train_policy` does."""

    def progress(step: int, _total: int, metrics: Mapping[str, float]) -> None:
        meter.step_done(step, tokens=tokens(step, metrics), loss=metrics["loss"])

    schedule = Schedule(
        steps=job.steps,
        lr=LR["grpo" if job.case.group_size else "sft"],
        batch_size=job.sequences,
        micro_batch_size=job.sequences,
        shape="constant_with_warmup" if job.case.group_size else "cosine",
        checkpoint_every=job.steps + 1,
    )
    phase = Phase(name=PHASE, schedule=schedule, make_trainer=make_trainer)
    context = TrainContext(
        work=pathlib.Path(job.work), key="key", seed=SEED, threads=job.threads, progress=progress
    )
    run_phase(phase, job.model, context)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoinVerifier:
    """Verifies, then marks half of the texts as right by checksum.

    A policy with random weights is never right; with equal rewards, a step that skips sequences
    without advantage would skip everything.
    """

    verifier: Verifier

    def judge(self, items: Sequence[Item]) -> list[Verdict]:
        """A verdict for each item."""
        verdicts = self.verifier.judge(items)
        return [
            verdict
            if verdict.strict is None
            else replace(verdict, strict=zlib.crc32((item.text or "").encode()) % 2 == 0)
            for item, verdict in zip(items, verdicts, strict=True)
        ]


@contextmanager
def open_rewards(case: Case) -> Iterator[Verifier]:
    """The verifier that rewards a case, on both sides."""
    with open_verifier(VerifyParams()) as verifier:
        random = case.model in ENDS
        yield cast("Verifier", CoinVerifier(verifier=verifier)) if random else verifier


def grpo_ours(job: Job, meter: Meter) -> None:
    """This library's GRPO phase: paths from the embedded engine, unpadded passes."""
    case = job.case
    problems = make_problems(400)
    live = LiveRollouts(decoding=Decoding(max_new_tokens=case.max_new_tokens), seed=SEED)
    with open_rewards(case) as verifier:
        make_trainer = grpo.trainer_factory(
            prompt_rows(problems, shown=case.shown),
            TrainParams(method=Method.GRPO, group_size=case.group_size),
            rewards=Rewards(
                functions=[
                    make_verified_reward(
                        {problem.id: problem.gold for problem in problems}, verifier
                    )
                ],
                weights=[1.0],
            ),
            make_rollouts=lambda _source: make_rollout_func(live),
            max_new_tokens=case.max_new_tokens,
        )
        _run_phase(job, make_trainer, meter, tokens=lambda _, m: m["mean_tokens"] * job.sequences)


def grpo_trl(job: Job, meter: Meter) -> None:
    """TRL's GRPOTrainer with the same loss, used as documented."""
    case = job.case
    problems = make_problems(400)
    torch.set_num_threads(job.threads)
    policy = load_policy(job.model)
    gpu = torch.cuda.is_available()
    config = GRPOConfig(
        output_dir=job.work,
        max_steps=job.steps,
        per_device_train_batch_size=job.sequences,
        num_generations=case.group_size,
        max_completion_length=case.max_new_tokens,
        learning_rate=LR["grpo"],
        lr_scheduler_type="constant_with_warmup",
        seed=SEED,
        temperature=1.0,
        epsilon_high=0.28,
        scale_rewards="none",
        mask_truncated_completions=True,
        save_strategy="no",
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
        # The defaults of bf16 and gradient checkpointing slow it down on a CPU.
        use_cpu=not gpu,
        bf16=gpu,
        gradient_checkpointing=gpu,
    )
    with open_rewards(case) as verifier, silence_libraries():
        trainer = GRPOTrainer(
            model=policy.model,
            args=config,
            train_dataset=Dataset.from_list(prompt_rows(problems, shown=case.shown)),
            processing_class=policy.tokenizer,
            reward_funcs=make_verified_reward({one.id: one.gold for one in problems}, verifier),
            callbacks=[_Metered(job, meter)],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()


class _Metered(TrainerCallback):
    def __init__(self, job: Job, meter: Meter) -> None:
        self._job, self._meter = job, meter

    @override
    def on_log(
        self, args: Any, state: Any, control: Any, logs: Row | None = None, **_: Any
    ) -> None:
        if logs is not None and "loss" in logs:
            tokens = logs["completions/mean_length"] * self._job.sequences
            self._meter.step_done(state.global_step, tokens=tokens, loss=logs["loss"])


def sft_ours(job: Job, meter: Meter) -> None:
    """This library's SFT phase."""
    sizes = [sum(map(len, batch["input_ids"])) for batch in _batches(job)]
    make_trainer = sft.trainer_factory(_solutions(), lora=LoraParams(enabled=False))
    _run_phase(job, make_trainer, meter, tokens=lambda step, _: sizes[step - 1])


def sft_loop(job: Job, meter: Meter) -> None:
    """A plain PyTorch loop: batches padded to their longest row, AdamW, clipping."""
    torch.set_num_threads(job.threads)
    policy = load_policy(job.model)
    model, pad = policy.model.train(), policy.tokenizer.pad_token_id
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR["sft"], weight_decay=0.0)
    scheduler = get_scheduler("cosine", optimizer, num_warmup_steps=0, num_training_steps=job.steps)
    for step, batch in enumerate(_batches(job), start=1):
        longest = max(map(len, batch["input_ids"]))
        ids, labels = (
            torch.tensor([row + [fill] * (longest - len(row)) for row in batch[name]])
            for name, fill in (("input_ids", pad), ("labels", -100))
        )
        lengths = torch.tensor([len(row) for row in batch["input_ids"]])
        mask = (torch.arange(longest) < lengths[:, None]).long()
        loss = model(
            input_ids=ids.to(device), attention_mask=mask.to(device), labels=labels.to(device)
        ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        meter.step_done(step, tokens=int(lengths.sum()), loss=loss.item())


def _solutions() -> list[Row]:
    return list(solution_rows(make_problems(2000), None))


def _batches(job: Job) -> Iterator[dict[str, list[list[int]]]]:
    """The batches of the SFT phase, in order."""
    tokenizer = load_policy(job.model).tokenizer
    rows = Dataset.from_list([sft.tokenize(row, tokenizer) for row in _solutions()])
    size = job.sequences
    settings = TrainerSettings(
        {
            "per_device_train_batch_size": size,
            "gradient_accumulation_steps": 1,
            "max_steps": job.steps,
            "seed": trainer_seed(SEED, "training", PHASE),
        }
    )
    chosen = order_rows(rows, settings)
    for start in range(0, len(chosen), size):
        yield chosen[start : start + size]


SIDES: dict[str, Callable[[Job, Meter], None]] = {
    "grpo, ours": grpo_ours,
    "grpo, TRL": grpo_trl,
    "sft, ours": sft_ours,
    "sft, PyTorch": sft_loop,
}


def main() -> None:
    """Run the side named on the command line."""
    side = SIDES[sys.argv[1]]
    given = json.loads(sys.stdin.readline())
    job = Job(**given | {"case": Case(**given["case"])})
    warnings.simplefilter("ignore")
    side(job, Meter(job))


if __name__ == "__main__":
    main()
