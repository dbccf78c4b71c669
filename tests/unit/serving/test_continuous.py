"""Rows that join and leave a batch get what they would have got alone."""

import pathlib

import pytest
import torch

from pipeline_lib.serving.chat_model import Decoding
from pipeline_lib.serving.continuous import ContinuousBatch, RowRequest
from pipeline_lib.serving.embedded import EmbeddedEngine

PROMPTS = [[2, 3], [2, 3, 4, 5, 2, 3, 4, 5, 2, 3], [5], [4, 4, 3, 2], [2, 3, 2, 3]]


@pytest.fixture(scope="module")
def engine(tiny_model: pathlib.Path) -> EmbeddedEngine:
    return EmbeddedEngine.load(str(tiny_model), batch_size=4)


def greedy_row(row_id: int, *, limit: int = 12) -> RowRequest:
    return RowRequest(
        id=row_id,
        prompt_ids=PROMPTS[row_id % len(PROMPTS)],
        seed=row_id,
        decoding=Decoding(temperature=0, max_new_tokens=limit),
    )


def by_generate(engine: EmbeddedEngine, row: RowRequest) -> list[int]:
    ids = torch.tensor([row.prompt_ids])
    drawn = engine.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=row.decoding.max_new_tokens,
    )
    return drawn[0, ids.shape[1] :].tolist()


def drain(batch: ContinuousBatch, tokens: dict[int, list[int]]) -> None:
    while not batch.idle:
        for drawn in batch.step():
            tokens.setdefault(drawn.id, []).append(drawn.token)


def test_rows_that_join_a_running_batch_equal_generate(engine):
    """Two rows at first, three more at every second step: greedy tokens are those of generate."""
    batch = engine.open_batch()
    rows = [greedy_row(i, limit=5 + i) for i in range(11)]
    tokens: dict[int, list[int]] = {}
    for start in range(0, len(rows), 3):
        batch.add(rows[start : start + 3])
        for _ in range(2):
            for drawn in batch.step():
                tokens.setdefault(drawn.id, []).append(drawn.token)
    drain(batch, tokens)
    assert tokens == {row.id: by_generate(engine, row) for row in rows}


def test_a_cancelled_row_gives_no_more(engine):
    """Cancelled while it runs and while it waits; the others are as without it."""
    batch = engine.open_batch()
    rows = [greedy_row(i) for i in range(6)]
    batch.add(rows)
    tokens: dict[int, list[int]] = {}
    for drawn in batch.step():
        tokens.setdefault(drawn.id, []).append(drawn.token)
    running, waiting = next(iter(tokens)), next(r.id for r in rows if r.id not in tokens)
    batch.cancel(running)
    batch.cancel(waiting)
    drain(batch, tokens)
    assert len(tokens.pop(running)) == 1
    assert waiting not in tokens
    assert tokens == {
        row.id: by_generate(engine, row) for row in rows if row.id not in {running, waiting}
    }
