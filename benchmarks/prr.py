"""Speed and memory of PRR training steps: K branches batched, K separate steps, and TRM mode.

All sides have the same width, depth, sequence length and batch; a step is forward, backward and
AdamATan2. `batched` is one step of a model with K branches, `separate` is K steps of a model with
one branch (K optimizer steps, the cost of training K models), `trm` is one supervision step. The
sides alternate, --repeats times after one warm-up turn; the table shows medians. A TRM step makes
fewer core passes per row (21) than a PRR step (K x T) and backpropagates through more of them (7
of 21 against 2 of 8), so the table has passes per second besides rows per second.

Memory is what autograd saves for the backward pass of one batched step, by --grad-steps, each
storage counted once; on CUDA also the peak of the allocator.

    python -m benchmarks.prr --output prr.json
    python -m benchmarks.prr --device cuda --width 256 --heads 4 --seq-len 900 --prefix 16 --rows 32
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch

from benchmarks.lib.command_line import add_output, make_parser, write_results
from benchmarks.lib.latent_presets import LATENT_PRESETS
from pipeline_lib.params.prr import PrrLossParams, PrrModelParams
from pipeline_lib.systems.prr.model.batches import Batch, Carry, Sizes
from pipeline_lib.systems.prr.model.saved_model import build_model
from pipeline_lib.systems.prr.training.run_state import AdamATan2

VOCAB_SIZE = 12
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One way to train on a batch."""

    name: str
    params: PrrModelParams
    steps_per_batch: int
    passes_per_row: int
    """Core passes per row over all steps on its batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Measurements of one side."""

    side: str
    seconds: list[float]
    """One value per measured turn."""
    median_s: float
    rows_per_second: float
    passes_per_row: int
    passes_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory of one batched step."""

    grad_steps: int
    saved_mib: float
    peak_mib: float | None
    """None on a CPU, whose allocator does not report it."""


def sides_of(params: PrrModelParams) -> list[Side]:
    """The three sides; TRM's cycles are the published ones."""
    one = params.model_copy(update={"num_branches": 1})
    trm = one.model_copy(update={"kind": "trm"})
    branches = params.num_branches
    passes = branches * params.steps
    supervised = trm.trm.high_cycles * (trm.trm.low_cycles + 1)
    return [
        Side(name="batched", params=params, steps_per_batch=1, passes_per_row=passes),
        Side(name="separate", params=one, steps_per_batch=branches, passes_per_row=passes),
        Side(name="trm", params=trm, steps_per_batch=1, passes_per_row=supervised),
    ]


def make_step(params: PrrModelParams, loss: PrrLossParams, batch: Batch) -> Callable[[], None]:
    """A function that runs one training step on ``batch``."""
    sizes = Sizes(vocab_size=VOCAB_SIZE, seq_len=batch.inputs_BL.shape[1], num_puzzle_ids=1)
    model = build_model(params, sizes, loss=loss).to(batch.inputs_BL.device)
    optimizer = AdamATan2(model.parameters(), lr=1e-4, weight_decay=0.1)
    carry: Carry | None = None

    def step() -> None:
        nonlocal carry
        output = model.training_step(batch, carry=carry, progress=0.5, generator=None)
        carry = output.carry
        optimizer.zero_grad()
        output.loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def random_batch(rows: int, seq_len: int, device: torch.device) -> Batch:
    """Random tokens; the duration of a step does not depend on them."""
    drawn = torch.Generator().manual_seed(1)
    tokens_BL = torch.randint(1, VOCAB_SIZE, (rows, seq_len), generator=drawn)
    return Batch(
        inputs_BL=tokens_BL,
        labels_BL=tokens_BL.flip(1),
        puzzle_ids_B=torch.zeros(rows, dtype=torch.long),
        real_B=torch.ones(rows, dtype=torch.bool),
    ).to(device)


def time_steps(step: Callable[[], None], times: int, device: torch.device) -> float:
    """Seconds of ``times`` steps, with the device synchronized."""
    _synchronize(device)
    start = time.perf_counter()
    for _ in range(times):
        step()
    _synchronize(device)
    return time.perf_counter() - start


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def compare(sides: list[Side], loss: PrrLossParams, batch: Batch, *, repeats: int) -> list[Timing]:
    """Measure all sides in turns; the first turn is a warm-up."""
    device = batch.inputs_BL.device
    steps = {side.name: make_step(side.params, loss, batch) for side in sides}
    seconds: dict[str, list[float]] = {side.name: [] for side in sides}
    for turn in range(repeats + 1):
        for side in sides:
            taken = time_steps(steps[side.name], side.steps_per_batch, device)
            if turn:
                seconds[side.name].append(taken)
    rows = len(batch.real_B)
    timings = []
    for side in sides:
        median = statistics.median(seconds[side.name])
        timings.append(
            Timing(
                side=side.name,
                seconds=seconds[side.name],
                median_s=median,
                rows_per_second=rows / median,
                passes_per_row=side.passes_per_row,
                passes_per_second=rows * side.passes_per_row / median,
            )
        )
    return timings


def measure_memory(params: PrrModelParams, loss: PrrLossParams, batch: Batch) -> Memory:
    """Memory that autograd saves between forward and backward, without weights."""
    device = batch.inputs_BL.device
    sizes = Sizes(vocab_size=VOCAB_SIZE, seq_len=batch.inputs_BL.shape[1], num_puzzle_ids=1)
    model = build_model(params, sizes, loss=loss).to(device)
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = model.training_step(batch, carry=None, progress=0.5, generator=None)
    output.loss.backward()  # type: ignore[no-untyped-call]
    return Memory(
        grad_steps=params.grad_steps,
        saved_mib=sum(kept.values()) / MIB,
        peak_mib=torch.cuda.max_memory_allocated() / MIB if device.type == "cuda" else None,
    )


def show(timings: list[Timing], memories: list[Memory]) -> None:
    """Print the tables of speed and memory."""
    base = next(timing for timing in timings if timing.side == "separate")
    print(
        f"{'side':10}{'s/batch':>11}{'rows/s':>9}{'passes/row':>12}{'passes/s':>10}"
        f"{'rows/s':>9}{'passes/s':>10}"
    )
    for one in timings:
        rows = one.rows_per_second / base.rows_per_second
        passes = one.passes_per_second / base.passes_per_second
        print(
            f"{one.side:10}{one.median_s:>11.4f}{one.rows_per_second:>9.1f}"
            f"{one.passes_per_row:>12}{one.passes_per_second:>10.0f}{rows:>8.2f}x{passes:>9.2f}x"
        )
    print(f"\n{'grad_steps':>10}{'saved MiB':>12}{'peak MiB':>12}")
    for memory in memories:
        peak = "-" if memory.peak_mib is None else f"{memory.peak_mib:.0f}"
        print(f"{memory.grad_steps:>10}{memory.saved_mib:>12.1f}{peak:>12}")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--preset", choices=["ours", "brief"], default="ours")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of torch")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--seq-len", type=int, default=36)
    parser.add_argument("--prefix", type=int, default=1, help="positions before the sequence")
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--branches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--grad-steps", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--compiled", action="store_true", help="use torch.compile on all sides")
    parser.add_argument("--repeats", type=int, default=7)
    add_output(parser)
    arguments = parser.parse_args()
    if max(arguments.grad_steps, default=0) > arguments.steps:
        parser.error(f"--grad-steps {max(arguments.grad_steps)} is above --steps {arguments.steps}")
    return arguments


def main() -> None:
    """Measure, print, write."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)  # noqa: TID251 - weights of a throw-away model
    preset = LATENT_PRESETS[arguments.preset]
    changes = {
        "width": arguments.width,
        "heads": arguments.heads,
        "layers": arguments.layers,
        "hidden_multiple": 32,
        "prefix_tokens": arguments.prefix,
        "num_branches": arguments.branches,
        "steps": arguments.steps,
        "grad_steps": min(2, arguments.steps),
        "compiled": arguments.compiled,
    }
    params = PrrModelParams(**(preset.model.model_dump() | changes))
    batch = random_batch(arguments.rows, arguments.seq_len, torch.device(arguments.device))
    timings = compare(sides_of(params), preset.loss, batch, repeats=arguments.repeats)
    eager = params.model_copy(update={"compiled": False})
    memories = [
        measure_memory(eager.model_copy(update={"grad_steps": count}), preset.loss, batch)
        for count in arguments.grad_steps
    ]
    show(timings, memories)
    results = {
        "settings": {key: value for key, value in vars(arguments).items() if key != "output"},
        "timings": [asdict(timing) for timing in timings],
        "memory": [asdict(memory) for memory in memories],
    }
    write_results(arguments.output, results)


if __name__ == "__main__":
    main()
