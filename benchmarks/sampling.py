"""Tokens per second of the embedded engine against `generate`, `generate_batch` and vLLM.

Every side samples the same number of paths for the same prompts from the same model, in fresh
processes and in turns. The fastest repetition is shown, since other load on the machine only slows
a side down. Each side has --threads threads: the torch sides run as single-threaded processes with
a share of the prompts each, as the flows fan out; vLLM is one server with that many threads, plus
its HTTP front. Loading and warm-up are not measured.

Lengths are geometric with a long tail (`benchmarks.lib.sampling.models`), up to --max-new-tokens;
with --ends 1 nearly all paths have that length. The limit is a roofline: the least time to sample
these texts at the measured rates of matrix products and memory (`benchmarks.lib.sampling.limits`).

With a folder as --model, the prompts are word problems after three worked ones, and all sides are
measured in each precision of --dtypes.

    python -m benchmarks.sampling --model llama-4.8m --threads 1 --output sampling.json
    python -m benchmarks.sampling --flat 20000
    python -m benchmarks.sampling --model models/smollm2 --dtypes bfloat16 float32 --prompts 16 --max-new-tokens 48
"""

import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from benchmarks.lib.command_line import add_output, make_parser, write_results
from benchmarks.lib.sampling.limits import Limit, compute_limit, measure_machine
from benchmarks.lib.sampling.memory import measure_memory
from benchmarks.lib.sampling.models import (
    DTYPE,
    SHAPES,
    Work,
    given_model,
    make_model,
    random_prompts,
)
from benchmarks.lib.sampling.sides import BATCH_ROWS, SIDES, Drawn
from benchmarks.lib.sampling.vllm_side import VLLM, NoVllmError, draw_by_vllm

SIDES_MODULE = "benchmarks.lib.sampling.sides"
BASE = "generate"
"""Prefix of the sides that ratios refer to; the fastest of them is 1."""
GIVEN_TEMPERATURE = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The fastest repetition of one side."""

    side: str
    tokens: int
    tokens_per_second: float
    tokens_per_cpu_second: float
    peak_mib: float
    """Sum over the processes of the side."""
    lengths: list[tuple[int, int]]


def run_in_processes(side: str, work: Work, threads: int) -> Result:
    """Run a side as one process per thread, all starting at the same time."""
    shares = [replace(work, prompts=work.prompts[i::threads]) for i in range(threads)]
    command = [sys.executable, "-m", SIDES_MODULE, side]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes, stderr=subprocess.DEVNULL) for _ in shares]
    for process, share in zip(processes, shares, strict=True):
        print(json.dumps(asdict(share)), file=process.stdin, flush=True)
    for process in processes:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise SystemExit(f"{side}: a process ended with code {process.wait()}")
    for process in processes:
        print(file=process.stdin, flush=True)
    parts = [Drawn(**json.loads(process.communicate()[0])) for process in processes]
    return combine(side, parts)


def combine(side: str, parts: Sequence[Drawn]) -> Result:
    """Combine the measurements of the processes of a side."""
    lengths = [length for part in parts for length in part.lengths]
    tokens = sum(count for _, count in lengths)
    seconds = max(part.stop for part in parts) - min(part.start for part in parts)
    return Result(
        side=side,
        tokens=tokens,
        tokens_per_second=tokens / seconds,
        tokens_per_cpu_second=tokens / sum(part.cpu_seconds for part in parts),
        peak_mib=sum(part.peak_mib for part in parts),
        lengths=lengths,
    )


def compare(work: Work, sides: Sequence[str], *, threads: int, repeats: int) -> list[Result]:
    """Measure all sides in turns; the fastest repetition of each."""
    best: dict[str, Result] = {}
    left_out: set[str] = set()
    for _ in range(repeats):
        for side in [side for side in sides if side not in left_out]:
            try:
                if side == VLLM:
                    result = combine(side, [draw_by_vllm(work, threads=threads)])
                else:
                    result = run_in_processes(side, work, threads)
            except NoVllmError as error:
                print(f"{side}: left out ({error})")
                left_out.add(side)
                continue
            if side not in best or result.tokens_per_second > best[side].tokens_per_second:
                best[side] = result
    return list(best.values())


def measure(work: Work, sides: Sequence[str], *, threads: int, repeats: int) -> dict[str, Any]:
    """Compare the sides with each other and with the roofline, and print the table."""
    results = compare(work, sides, threads=threads, repeats=repeats)
    machine = measure_machine(threads, work.dtype)
    # vLLM reports the lengths of a prompt's paths as one sum.
    lengths = next(one.lengths for one in results if one.side != VLLM)
    limit = compute_limit(lengths, work=work, rows=BATCH_ROWS * threads, machine=machine)
    quantiles = np.percentile([count for _, count in lengths], [5, 50, 95]).astype(int).tolist()
    print(
        f"{work.dtype}, {threads} thread(s), {len(work.prompts)} prompts x {work.paths} paths; "
        f"5, 50, 95 % of the lengths: {quantiles}, at most {work.max_new_tokens}"
    )
    show(results, limit)
    print(
        f"measured: {machine.flops / 1e9:.0f} GFLOP/s, {machine.bytes_per_second / 1e9:.1f} GB/s; a "
        f"token takes {limit.flops_per_token / 1e6:.1f} MFLOP and {limit.bytes_per_token / 1e6:.2f} "
        f"MB at least: {limit.by_arithmetic:.0f} tokens/s by arithmetic, {limit.by_memory:.0f} by "
        f"memory; {limit.binding} binds"
    )
    return {
        "dtype": work.dtype,
        "machine": asdict(machine),
        "limit": asdict(limit),
        "results": [{k: v for k, v in asdict(r).items() if k != "lengths"} for r in results],
    }


def show(results: Sequence[Result], limit: Limit) -> None:
    """Print speed, ratio to plain generate, memory, and share of the limit."""
    base = max(
        (r.tokens_per_second for r in results if r.side.startswith(f"{BASE},")), default=None
    )
    print(
        f"{'side':30}{'tokens':>8}{'per s':>8}{'per CPU s':>11}{'ratio':>7}{'MiB':>7}{'limit':>7}"
    )
    for one in results:
        ratio = f"{one.tokens_per_second / base:.1f}" if base else "-"
        share = one.tokens_per_second / limit.tokens_per_second
        print(
            f"{one.side:30}{one.tokens:>8}{one.tokens_per_second:>8.0f}"
            f"{one.tokens_per_cpu_second:>11.0f}{ratio:>7}{one.peak_mib:>7.0f}{share:>7.0%}"
        )


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--model", default="llama-4.8m", help=f"{', '.join(SHAPES)}, or the folder of a model"
    )
    parser.add_argument("--dtypes", nargs="+", default=[DTYPE], help="precisions of a given model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--paths", type=int, default=10, help="paths per prompt")
    parser.add_argument("--max-new-tokens", type=int, default=160)
    parser.add_argument("--ends", type=int, default=10, help="number of end-of-text tokens")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--sides", nargs="*", default=[*SIDES, VLLM])
    parser.add_argument("--flat", type=int, help="only sample this many paths and print the memory")
    add_output(parser)
    arguments = parser.parse_args()
    if not set(arguments.sides) & set(SIDES):
        parser.error(f"--sides needs one of {list(SIDES)}: the limit is computed for its texts")
    with tempfile.TemporaryDirectory() as folder:
        if arguments.model not in SHAPES:
            prompts, end_ids = given_model(arguments.model, arguments.prompts)
            work = Work(
                model=arguments.model,
                prompts=prompts,
                paths=arguments.paths,
                max_new_tokens=arguments.max_new_tokens,
                end_ids=end_ids,
                temperature=GIVEN_TEMPERATURE,
            )
        else:
            shape = SHAPES[arguments.model]
            end_ids = make_model(shape, pathlib.Path(folder), ends=arguments.ends)
            if arguments.flat:
                measure_memory(folder, arguments.flat, max_new_tokens=arguments.max_new_tokens)
                return
            work = Work(
                model=folder,
                prompts=random_prompts(shape, arguments.prompts, folder, end_ids=end_ids),
                paths=arguments.paths,
                max_new_tokens=arguments.max_new_tokens,
                end_ids=end_ids,
            )
        print(arguments.model)
        measured = [
            measure(
                replace(work, dtype=dtype),
                arguments.sides,
                threads=arguments.threads,
                repeats=arguments.repeats,
            )
            for dtype in arguments.dtypes
        ]
    content = {"arguments": {k: str(v) for k, v in vars(arguments).items()}, "measured": measured}
    write_results(arguments.output, content)


if __name__ == "__main__":
    main()
