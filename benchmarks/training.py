"""Seconds per training step: GRPO against TRL's GRPOTrainer, SFT against a plain PyTorch loop.

Both sides of a case train the same model on the same prompts with the same loss, optimizer,
rewards and length limit, each in a separate process. They alternate, in changing order; loading and
the first step are not measured. The table shows medians over the repetitions, and the ratio of
medians with its range over single repetitions. Each side samples its own paths; tokens per step
show that the amounts are equal.

countdown  64 prompts x 8 paths of the default policy, of about 12 tokens
long       16 prompts x 8 paths of 1 to 256 tokens: sampling dominates
short      16 prompts x 8 paths of about 10 tokens after prompts of about 200: little sampling
sft        64 solutions per step, against a plain PyTorch loop on the same padded batches

    python -m benchmarks.training --output training.json
    python -m benchmarks.training --cases countdown sft --repeats 3 --models /tmp/models
    python -m benchmarks.training --cases long --long-tokens 128 --threads 2
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.lib.command_line import add_output, make_parser, write_results
from benchmarks.lib.training.cases import CASES, Case, make_models
from benchmarks.lib.training.sides import Block, Job
from pipeline_lib.train.trainer_settings import silence_libraries

SIDES_MODULE = "benchmarks.lib.training.sides"
PAIRS = {True: ("grpo, ours", "grpo, TRL"), False: ("sft, ours", "sft, PyTorch")}
"""This library's side and the other one, for online cases and for SFT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Measurements of one side of a case."""

    case: str
    side: str
    blocks: list[Block]
    steps: int
    """Steps per block."""

    @property
    def seconds(self) -> float:
        """Seconds per step, median over the repetitions."""
        return median(block.seconds for block in self.blocks) / self.steps

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds per step, median over the repetitions."""
        return median(block.cpu_seconds for block in self.blocks) / self.steps

    @property
    def tokens(self) -> float:
        """Tokens per step."""
        return sum(block.tokens for block in self.blocks) / (len(self.blocks) * self.steps)

    @property
    def peak_mib(self) -> float:
        """Peak memory of the process."""
        return self.blocks[-1].peak_mib


class Side:
    """A running process of `benchmarks.lib.training.sides`."""

    def __init__(self, name: str, job: Job, stack: ExitStack) -> None:
        command = [sys.executable, "-m", SIDES_MODULE, name]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.name = name
        self._process = stack.enter_context(
            subprocess.Popen(command, **pipes, stderr=subprocess.DEVNULL)
        )
        self._send(json.dumps(asdict(job)))

    def _send(self, line: str) -> str:
        print(line, file=self._process.stdin, flush=True)
        assert self._process.stdout is not None
        answer: str = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.name}: the process ended with code {self._process.wait()}")
        return answer

    def run_block(self) -> Block:
        """Run one repetition."""
        return Block(**json.loads(self._send("")))


def compare(
    name: str, case: Case, models: pathlib.Path, options: argparse.Namespace
) -> list[Result]:
    """Measure both sides of a case in turns."""
    with ExitStack() as stack:
        sides = []
        for side_name in PAIRS[case.group_size > 0]:
            job = Job(
                case=case,
                model=str(models / case.model),
                work=stack.enter_context(tempfile.TemporaryDirectory()),
                repeats=options.repeats,
                threads=options.threads,
            )
            sides.append(Side(side_name, job, stack))
        blocks: dict[str, list[Block]] = {side.name: [] for side in sides}
        for repeat in range(options.repeats):
            for side in sides if repeat % 2 == 0 else reversed(sides):
                blocks[side.name].append(side.run_block())
    return [
        Result(case=name, side=side.name, blocks=blocks[side.name], steps=case.steps)
        for side in sides
    ]


def ratios(ours: Result, other: Result) -> list[float]:
    """Speedup over the other side in each repetition."""
    return [b.seconds / a.seconds for a, b in zip(ours.blocks, other.blocks, strict=True)]


def show(results: list[Result]) -> None:
    """Print the table."""
    table = Table(title="training steps")
    for column in (
        "case",
        "side",
        "s/step",
        "CPU s",
        "tokens/step",
        "tokens/s",
        "ratio",
        "MiB",
    ):
        table.add_column(column, justify="left" if column in {"case", "side"} else "right")
    for ours, other in zip(results[::2], results[1::2], strict=True):
        single = ratios(ours, other)
        ratio = f"{other.seconds / ours.seconds:.2f} ({min(single):.2f} to {max(single):.2f})"
        for result, said in ((ours, ratio), (other, "1")):
            table.add_row(
                result.case if result is ours else "",
                result.side,
                f"{result.seconds:.3f}",
                f"{result.cpu_seconds:.3f}",
                f"{result.tokens:.0f}",
                f"{result.tokens / result.seconds:.0f}",
                said,
                f"{result.peak_mib:.0f}",
            )
        table.add_section()
    Console().print(table)


def check_losses(results: list[Result]) -> None:
    """Print the largest difference between the SFT losses of both sides; batches are equal."""
    pairs = zip(results[::2], results[1::2], strict=True)
    for ours, other in ((a, b) for a, b in pairs if a.case == "sft"):
        losses = [
            [loss for block in side.blocks for loss in block.losses] for side in (ours, other)
        ]
        apart = max(abs(a - b) for a, b in zip(*losses, strict=True))
        print(
            f"sft: over {len(losses[0])} steps the losses of both sides differ by {apart:.1g} at most"
        )


def main() -> None:
    """Measure the cases, print the table, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--steps", type=int, help="steps per repetition; default: those of the case"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--long-tokens", type=int, default=256, help="length limit of the case long"
    )
    parser.add_argument("--bootstrap-steps", type=int, default=700)
    parser.add_argument("--models", type=pathlib.Path, help="folder to keep and reuse models")
    add_output(parser)
    options = parser.parse_args()
    cases = {name: CASES[name] for name in options.cases}
    if "long" in cases:
        cases["long"] = replace(cases["long"], max_new_tokens=options.long_tokens)
    if options.steps:
        cases = {name: replace(case, steps=options.steps) for name, case in cases.items()}
    results = []
    with tempfile.TemporaryDirectory() as folder:
        models = options.models or pathlib.Path(folder)
        wanted = sorted({case.model for case in cases.values()})
        with silence_libraries():
            make_models(models, wanted, bootstrap_steps=options.bootstrap_steps)
        for name, case in cases.items():
            results += compare(name, case, models, options)
    show(results)
    check_losses(results)
    load = os.getloadavg()[0]
    print(f"{options.threads} thread(s) a side; other load on the machine at the end: {load:.1f}")
    content = {
        "arguments": {k: str(v) for k, v in vars(options).items()},
        "load": os.getloadavg(),
        "cases": {name: asdict(case) for name, case in cases.items()},
        "results": [
            asdict(result) | {"seconds_a_step": result.seconds, "tokens_a_step": result.tokens}
            for result in results
        ],
    }
    write_results(options.output, content)


if __name__ == "__main__":
    main()
