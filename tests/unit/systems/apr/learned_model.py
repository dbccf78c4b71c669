"""A tiny model that has learned the threads of a few Countdown problems by heart."""

import pathlib
from collections.abc import Mapping, Sequence

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pipeline_lib.determinism import deterministic
from pipeline_lib.params.apr import AprDataParams
from pipeline_lib.params.paths import CountdownParams
from pipeline_lib.store.files import write_json
from pipeline_lib.systems.apr.countdown.lines import Trace
from pipeline_lib.systems.apr.countdown.tokens import EOS, PAD, make_tokenizer
from pipeline_lib.systems.apr.countdown.traces import (
    CompactSearch,
    compact_parallel_trace,
    compact_serial_trace,
)
from pipeline_lib.systems.apr.model_record import RECORD_NAME, ThreadModelRecord
from tests.made_once import made_once

SMALL_DATA = AprDataParams(
    countdown=CountdownParams(high=8, target_low=5, target_high=40),
    train_problems=40,
    valid_problems=4,
    test_problems=4,
    shard_size=7,
)
WINDOW = 256
SOLVED, UNSOLVED = ([2, 4, 9], 10), ([3, 5, 12], 27)
"""Numbers and target; with two operations at each node the second problem is not solved."""
_IGNORED = -100
_LEARNED = 0.002


def trace(numbers: list[int], target: int, *, kind: str = "parallel") -> Trace:
    """The trace of a problem with three children, each of two operations a node."""
    search = CompactSearch(numbers=numbers, target=target, beam=3, sub_beam=2, max_value=100)
    return compact_parallel_trace(search) if kind == "parallel" else compact_serial_trace(search)


def outputs_of(*traces: Trace) -> Mapping[str, str]:
    """What a model that has learned the traces writes after each prefix."""
    return {one.prefix: one.output for found in traces for one in found.sequences}


def save_tokenizer(folder: pathlib.Path) -> PreTrainedTokenizerFast:
    """The tokenizer of Countdown threads, saved in ``folder``."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=make_tokenizer(3), pad_token=PAD, eos_token=EOS
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


def save_model(folder: pathlib.Path, outputs: Mapping[str, str]) -> pathlib.Path:
    """A Llama that continues each prefix by its output, greedily; it is trained until it does."""
    tokenizer = save_tokenizer(folder)
    rows = [
        (tokenizer.encode(prefix), [*tokenizer.encode(output), tokenizer.eos_token_id])
        for prefix, output in outputs.items()
    ]
    # Two threads in each of two test processes wait for each other on two cores: minutes instead of seconds.
    with deterministic(threads=1, seed=1):
        model = _learn(rows, tokenizer)
    model.save_pretrained(folder)
    save_record(folder)
    return folder


def shared_model(factory: pytest.TempPathFactory) -> pathlib.Path:
    """A model that spawns and joins on `SOLVED` and `UNSOLVED`, in the compact style; not to be changed."""
    outputs = outputs_of(trace(*SOLVED), trace(*UNSOLVED))
    return made_once(factory, "thread-model", lambda folder: save_model(folder, outputs))


def _learn(
    rows: Sequence[tuple[list[int], list[int]]], tokenizer: PreTrainedTokenizerFast
) -> LlamaForCausalLM:
    """Train until the loss on the second part of each row is below `_LEARNED`."""
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=WINDOW,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )
    longest = max(len(prefix) + len(output) for prefix, output in rows)
    inputs = torch.full((len(rows), longest), tokenizer.pad_token_id)
    labels = torch.full((len(rows), longest), _IGNORED)
    for place, (prefix, output) in enumerate(rows):
        end = len(prefix) + len(output)
        inputs[place, :end] = torch.tensor(prefix + output)
        labels[place, len(prefix) : end] = torch.tensor(output)
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    for _ in range(600):
        loss = model(input_ids=inputs, labels=labels).loss
        if loss < _LEARNED:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < _LEARNED
    return model


def record(**changes: object) -> ThreadModelRecord:
    """What `reasonloop apr train` records of a parallel model without conditions."""
    plain = {
        "kind": "parallel",
        "style": "compact",
        "num_numbers": 3,
        "window": WINDOW,
        "conditions": ("",),
        "data": "none",
        "sequences": 10,
        "dropped": 0,
    }
    return ThreadModelRecord.model_validate(plain | changes)


def save_record(folder: pathlib.Path, **changes: object) -> None:
    """Write the record into the folder of a model."""
    write_json(folder / RECORD_NAME, record(**changes).model_dump(mode="json"))
