"""Seconds of a training step: ours against TRL's GRPOTrainer used plainly, and SFT against a bare loop.

Both sides of a case train the same model on the same prompts with the same loss, optimizer, rewards and
limit of length, each in a process of its own. They take turns, and the order changes from repetition to
repetition; loading and the first step are not counted. What stands in the table is the median of the
repetitions; the ratio is that of medians, and its range over the single repetitions stands beside it.
Each side draws its own paths: tokens a step show that they are as many.

countdown  64 prompts x 8 paths of the default policy, which all have about 12 tokens
long       16 prompts x 8 paths of up to 256 tokens, with lengths from 1 to the limit: drawing dominates
short      16 prompts x 8 paths of about 10 tokens after prompts of about 200: drawing hardly counts
sft        64 solutions a step, against a loop in plain PyTorch on the same batches, padded alike

    python benchmarks/training.py --output training.json
    python benchmarks/training.py --cases countdown sft --repeats 3 --models /tmp/models
    python benchmarks/training.py --cases long --long-tokens 128 --threads 2
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
from training_cases import CASES, Case, make_models
from training_sides import Block, Job

from pipeline_lib.training.library_logs import silence_libraries

HERE = pathlib.Path(__file__).parent
PAIRS = {True: ("grpo, ours", "grpo, TRL"), False: ("sft, ours", "sft, PyTorch")}
"""Ours and the other, for online cases and for SFT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One side of one case."""

    case: str
    side: str
    blocks: list[Block]
    steps: int
    """Of each block."""

    @property
    def seconds(self) -> float:
        """A step, median over the repetitions."""
        return median(block.seconds for block in self.blocks) / self.steps

    @property
    def cpu_seconds(self) -> float:
        """A step, median over the repetitions."""
        return median(block.cpu_seconds for block in self.blocks) / self.steps

    @property
    def tokens(self) -> float:
        """A step."""
        return sum(block.tokens for block in self.blocks) / (len(self.blocks) * self.steps)

    @property
    def peak_mib(self) -> float:
        """Of the whole process."""
        return self.blocks[-1].peak_mib


class Side:
    """A running process of `training_sides`."""

    def __init__(self, name: str, job: Job, stack: ExitStack) -> None:
        command = [sys.executable, str(HERE / "training_sides.py"), name]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.name = name
        self._process = stack.enter_context(
            subprocess.Popen(command, **pipes, stderr=subprocess.DEVNULL)
        )
        self._said(json.dumps(asdict(job)))

    def _said(self, line: str) -> str:
        print(line, file=self._process.stdin, flush=True)
        answer: str = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.name}: the process ended with code {self._process.wait()}")
        return answer

    def block(self) -> Block:
        """One repetition."""
        return Block(**json.loads(self._said("")))


def compared(
    name: str, case: Case, models: pathlib.Path, options: argparse.Namespace
) -> list[Result]:
    """Both sides of a case, in turns."""
    with ExitStack() as stack:
        sides = []
        for side in PAIRS[case.group_size > 0]:
            job = Job(
                case=case,
                model=str(models / case.model),
                work=stack.enter_context(tempfile.TemporaryDirectory()),
                repeats=options.repeats,
                threads=options.threads,
            )
            sides.append(Side(side, job, stack))
        blocks: dict[str, list[Block]] = {side.name: [] for side in sides}
        for repeat in range(options.repeats):
            for side in sides if repeat % 2 == 0 else reversed(sides):
                blocks[side.name].append(side.block())
    return [
        Result(case=name, side=side.name, blocks=blocks[side.name], steps=case.steps)
        for side in sides
    ]


def ratios(ours: Result, other: Result) -> list[float]:
    """Seconds of the other to ours, repetition by repetition."""
    return [b.seconds / a.seconds for a, b in zip(ours.blocks, other.blocks, strict=True)]


def show(results: list[Result]) -> None:
    """The table."""
    table = Table(title="training steps")
    for column in (
        "case",
        "side",
        "s a step",
        "CPU s",
        "tokens a step",
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


def checked(results: list[Result]) -> None:
    """Say how far the losses of SFT are apart: the same batches must give the same."""
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, help="of one repetition, instead of the case's own")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--long-tokens", type=int, default=256, help="the limit of case long")
    parser.add_argument("--bootstrap-steps", type=int, default=700)
    parser.add_argument(
        "--models", type=pathlib.Path, help="keep the models here, and take them up"
    )
    parser.add_argument("--output", type=pathlib.Path, help="write the results as JSON")
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
            results += compared(name, case, models, options)
    show(results)
    checked(results)
    load = os.getloadavg()[0]
    print(f"{options.threads} thread(s) a side; other load on the machine at the end: {load:.1f}")
    if options.output:
        content = {
            "arguments": {k: str(v) for k, v in vars(options).items()},
            "load": os.getloadavg(),
            "cases": {name: asdict(case) for name, case in cases.items()},
            "results": [
                asdict(result) | {"seconds_a_step": result.seconds, "tokens_a_step": result.tokens}
                for result in results
            ],
        }
        options.output.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
