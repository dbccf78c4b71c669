"""One torch side of `benchmarks.sampling` in a process: one engine, a share of the prompts.

    python -m benchmarks.lib.sampling.sides SIDE < work.json

It prints "ready" after loading and warm-up, waits for a line, samples, and prints its measurements
as JSON.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig

from benchmarks.lib.sampling.models import DEVICE, Work, load_model
from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.embedded.continuous_batch import ContinuousBatch, SequenceRequest
from pipeline_lib.engines.embedded.decode_pass import PADDED_PASS, SUB_BATCH_PASS, DecodePass

BATCH_ROWS = 512
"""Rows that an engine decodes together: the default of `sample.batch_size`."""
WARM_UP_TOKENS = 4
PAGE_TOKENS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Measurements of one process of a side."""

    lengths: list[tuple[int, int]]
    """Prompt tokens and sampled tokens of every path, including the end token."""
    start: float
    stop: float
    """On the monotonic clock, which all processes share."""
    cpu_seconds: float
    peak_mib: float
    """Of the process, or of the GPU if the model is on one."""


Lengths = list[tuple[int, int]]


def continuous_batch(model: Any, work: Work) -> Lengths:
    """The embedded engine: waiting rows join as others finish."""
    return _drain(_batch(model, work), _sequences(work))


def fixed_pass(decode_pass: DecodePass) -> Callable[[Any, Work], Lengths]:
    """The embedded engine with a given decode pass, instead of the one it chooses for the model."""

    def draw(model: Any, work: Work) -> Lengths:
        batch = _batch(model, work)
        batch._decode = decode_pass  # noqa: SLF001 - users have no such choice
        return _drain(batch, _sequences(work))

    return draw


def static_batches(model: Any, work: Work) -> Lengths:
    """The embedded engine without joining: the next rows wait until the batch has finished."""
    rows = sorted(_sequences(work), key=lambda row: -len(row.prompt_ids))
    batch = _batch(model, work)
    lengths = []
    for start in range(0, len(rows), BATCH_ROWS):
        lengths += _drain(batch, rows[start : start + BATCH_ROWS])
    return lengths


def _batch(model: Any, work: Work) -> ContinuousBatch:
    return ContinuousBatch(model=model, max_sequences=BATCH_ROWS, eos_ids=work.end_ids, pad_id=0)


def _sequences(work: Work) -> list[SequenceRequest]:
    decoding = Decoding(max_new_tokens=work.max_new_tokens, temperature=work.temperature)
    return [
        SequenceRequest(
            id=p * work.paths + i, prompt_ids=prompt, seed=p * work.paths + i, decoding=decoding
        )
        for p, prompt in enumerate(work.prompts)
        for i in range(work.paths)
    ]


def _drain(batch: ContinuousBatch, rows: Sequence[SequenceRequest]) -> Lengths:
    counts = {row.id: 0 for row in rows}
    batch.add(rows)
    while not batch.idle:
        for one in batch.step():
            counts[one.id] += 1
    return [(len(row.prompt_ids), counts[row.id]) for row in rows]


def generate(prompts_at_once: int) -> Callable[[Any, Work], Lengths]:
    """``model.generate`` with ``num_return_sequences``, prompts sorted by length and padded."""

    def draw(model: Any, work: Work) -> Lengths:
        prompts = sorted(work.prompts, key=len, reverse=True)
        lengths = []
        for start in range(0, len(prompts), prompts_at_once):
            lengths += list(_generated(model, prompts[start : start + prompts_at_once], work))
        return lengths

    return draw


def _generated(
    model: Any, prompts: Sequence[tuple[int, ...]], work: Work
) -> Iterator[tuple[int, int]]:
    longest = max(map(len, prompts))
    ids = torch.tensor([(0,) * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    drawn = model.generate(
        ids.to(DEVICE),
        attention_mask=mask.to(DEVICE),
        do_sample=True,
        temperature=work.temperature,
        top_p=1.0,
        top_k=0,
        num_return_sequences=work.paths,
        max_new_tokens=work.max_new_tokens,
    )[:, longest:]
    for row, tokens in enumerate(drawn.tolist()):
        ends = [place for place, token in enumerate(tokens) if token in work.end_ids]
        yield len(prompts[row // work.paths]), ends[0] + 1 if ends else len(tokens)


def generate_batch(model: Any, work: Work) -> Lengths:
    """Continuous batching of transformers, with the same number of rows.

    Sizes are given because its defaults for a CPU are many times slower.
    """
    longest = max(map(len, work.prompts)) + work.max_new_tokens
    sizes = ContinuousBatchingConfig(
        page_size=PAGE_TOKENS,
        num_blocks=BATCH_ROWS * -(-longest // PAGE_TOKENS),
        max_batch_tokens=2 * BATCH_ROWS,
        max_requests_per_batch=BATCH_ROWS,
    )
    config = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=True,
        temperature=work.temperature,
        top_p=1.0,
        top_k=0,
        max_new_tokens=work.max_new_tokens,
        eos_token_id=list(work.end_ids),
        pad_token_id=0,
    )
    inputs = [list(prompt) for prompt in work.prompts for _ in range(work.paths)]
    outputs = model.generate_batch(
        inputs=inputs, generation_config=config, continuous_batching_config=sizes
    )
    return [(len(output.prompt_ids), len(output.generated_tokens)) for output in outputs.values()]


SIDES: dict[str, Callable[[Any, Work], Lengths]] = {
    "embedded": continuous_batch,
    "embedded, batch after batch": static_batches,
    "embedded, sub-batch pass": fixed_pass(SUB_BATCH_PASS),
    "embedded, padded pass": fixed_pass(PADDED_PASS),
    "generate, 8 prompts at once": generate(8),
    "generate, 25 prompts at once": generate(25),
    "generate_batch": generate_batch,
}


def main() -> None:
    """Load, warm up, sample, and print the measurements."""
    side = SIDES[sys.argv[1]]
    given = json.loads(sys.stdin.readline())
    work = Work(**given | {"prompts": tuple(map(tuple, given["prompts"]))})
    torch.set_num_threads(1)
    model = load_model(work.model, work.dtype)
    little = Work(**asdict(work) | {"prompts": work.prompts[:2], "max_new_tokens": WARM_UP_TOKENS})
    side(model, little)
    print("ready", flush=True)
    sys.stdin.readline()
    start, cpu = time.monotonic(), time.process_time()
    lengths = side(model, work)
    drawn = Drawn(
        lengths=lengths,
        start=start,
        stop=time.monotonic(),
        cpu_seconds=time.process_time() - cpu,
        peak_mib=_peak_mib(),
    )
    print(json.dumps(asdict(drawn)), flush=True)


def _peak_mib() -> float:
    if DEVICE == "cuda":
        return torch.cuda.max_memory_reserved() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
