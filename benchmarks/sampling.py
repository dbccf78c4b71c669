"""Tokens a second of the embedded engine, against the usual ways, in one run.

Every side draws the same number of paths for the same prompts from the same model, each time in
fresh processes, the sides in turns; the fastest of the repetitions is shown, since other load on the
machine only slows down. A side has --threads threads: the torch sides run as so many processes of
one thread, each with its share of the prompts, as the flows fan out; vLLM is one server with so many
threads (its HTTP front comes on top). Loading and warming up is not counted.

Lengths are geometric with a long tail (see `sampling_models`), up to --max-new-tokens; with --ends 1
nearly all paths have that length. The limit is what drawing these texts takes at least, at the rates
of matrix products and of memory that are measured in the same run (see `sampling_limits`).

    python benchmarks/sampling.py --model llama-4.8m --threads 1 --output sampling.json
    python benchmarks/sampling.py --flat 20000
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from sampling_flat import watch_memory
from sampling_limits import Limit, limit_of, measure_machine
from sampling_models import SHAPES, Work, make_model, random_prompts
from sampling_sides import BATCH_ROWS, SIDES, Drawn
from sampling_vllm import VLLM, NoVllmError, draw_by_vllm
from transformers import AutoTokenizer

HERE = pathlib.Path(__file__).parent
BASE = "generate"
"""The sides whose names begin so are what ratios are taken to, the fastest of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The fastest repetition of one side."""

    side: str
    tokens: int
    tokens_per_second: float
    tokens_per_cpu_second: float
    peak_mib: float
    """Of all processes of the side together."""
    lengths: list[tuple[int, int]]


def drawn_in_processes(side: str, work: Work, threads: int) -> Result:
    """One process a thread, which all start to draw at the same time."""
    shares = [replace(work, prompts=work.prompts[i::threads]) for i in range(threads)]
    command = [sys.executable, str(HERE / "sampling_sides.py"), side]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes, stderr=subprocess.DEVNULL) for _ in shares]
    for process, share in zip(processes, shares, strict=True):
        print(json.dumps(asdict(share)), file=process.stdin, flush=True)
    for process in processes:
        if process.stdout.readline() != "ready\n":
            raise SystemExit(f"{side}: a process ended with code {process.wait()}")
    for process in processes:
        print(file=process.stdin, flush=True)
    parts = [Drawn(**json.loads(process.communicate()[0])) for process in processes]
    return result_of(side, parts)


def result_of(side: str, parts: Sequence[Drawn]) -> Result:
    """What the processes of a side did together."""
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


def compared(work: Work, sides: Sequence[str], *, threads: int, repeats: int) -> list[Result]:
    """All sides in turns; the fastest repetition of each."""
    best: dict[str, Result] = {}
    left_out: set[str] = set()
    for _ in range(repeats):
        for side in [side for side in sides if side not in left_out]:
            try:
                if side == VLLM:
                    result = result_of(side, [draw_by_vllm(work, threads=threads)])
                else:
                    result = drawn_in_processes(side, work, threads)
            except NoVllmError as error:
                print(f"{side}: left out ({error})")
                left_out.add(side)
                continue
            if side not in best or result.tokens_per_second > best[side].tokens_per_second:
                best[side] = result
    return list(best.values())


def show(results: Sequence[Result], limit: Limit) -> None:
    """The table: speed, its ratio to plain generate, memory, share of the limit."""
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=SHAPES, default="llama-4.8m")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--paths", type=int, default=10, help="per prompt")
    parser.add_argument("--max-new-tokens", type=int, default=160)
    parser.add_argument("--ends", type=int, default=10, help="tokens that end a text")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--sides", nargs="*", default=[*SIDES, VLLM])
    parser.add_argument("--flat", type=int, help="draw so many paths and watch memory, no sides")
    parser.add_argument("--output", type=pathlib.Path, help="write the results as JSON")
    arguments = parser.parse_args()
    if not set(arguments.sides) & set(SIDES):
        parser.error(f"--sides needs one of {list(SIDES)}: the limit is computed for its texts")
    shape = SHAPES[arguments.model]
    with tempfile.TemporaryDirectory() as folder:
        end_ids = make_model(shape, pathlib.Path(folder), ends=arguments.ends)
        if arguments.flat:
            watch_memory(folder, arguments.flat, max_new_tokens=arguments.max_new_tokens)
            return
        vocabulary = len(AutoTokenizer.from_pretrained(folder, trust_remote_code=False))
        prompts = random_prompts(shape, arguments.prompts, vocabulary=vocabulary, end_ids=end_ids)
        work = Work(
            model=folder,
            prompts=prompts,
            paths=arguments.paths,
            max_new_tokens=arguments.max_new_tokens,
            end_ids=end_ids,
        )
        results = compared(
            work, arguments.sides, threads=arguments.threads, repeats=arguments.repeats
        )
        machine = measure_machine(arguments.threads)
        # vLLM tells the lengths of a prompt's paths as one sum.
        lengths = next(one.lengths for one in results if one.side != VLLM)
        limit = limit_of(
            folder, lengths, paths=work.paths, rows=BATCH_ROWS * machine.threads, machine=machine
        )
    quantiles = np.percentile([count for _, count in lengths], [5, 50, 95]).astype(int).tolist()
    print(
        f"{arguments.model}, {arguments.threads} thread(s), {len(prompts)} prompts x {work.paths} "
        f"paths; 5, 50, 95 % of the lengths: {quantiles}, at most {work.max_new_tokens}"
    )
    show(results, limit)
    print(
        f"measured: {machine.flops / 1e9:.0f} GFLOP/s, {machine.bytes_per_second / 1e9:.1f} GB/s; a "
        f"token takes {limit.flops_per_token / 1e6:.1f} MFLOP and {limit.bytes_per_token / 1e6:.2f} "
        f"MB at least: {limit.by_arithmetic:.0f} tokens/s by arithmetic, {limit.by_memory:.0f} by "
        f"memory; {limit.binding} binds"
    )
    if arguments.output:
        content = {
            "arguments": {k: str(v) for k, v in vars(arguments).items()},
            "machine": asdict(machine),
            "limit": asdict(limit),
            "results": [{k: v for k, v in asdict(r).items() if k != "lengths"} for r in results],
        }
        arguments.output.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
