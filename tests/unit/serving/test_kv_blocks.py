"""Memory for keys and values is used again, and stays within what is in use."""

import hypothesis.strategies as st
import torch
from hypothesis import given

from pipeline_lib.serving.kv_blocks import KvBlock, KvPool, KvShape

SHAPE = KvShape(
    tensors=((2, 4), (2, 3), (2, 4), (2, 3)), dtype=torch.float32, device=torch.device("cpu")
)
"""Two layers; values have fewer channels than keys."""


def test_a_block_is_cut_as_its_shape_says():
    """Keys and values of each layer are views of the slabs: what is written in one is in the other."""
    block = KvPool().take(SHAPE, rows=3, columns=5)
    assert [tuple(keys.shape) for keys in block.keys] == [(3, 2, 5, 4)] * 2
    assert [tuple(values.shape) for values in block.values] == [(3, 2, 5, 3)] * 2
    for number, tensor in enumerate([*block.keys, *block.values]):
        tensor.fill_(number)
    assert [slab[:, 0, 0, 0, 0].tolist() for slab in block.slabs] == [[0, 1], [2, 3]]


def test_a_block_that_came_back_serves_again():
    """The next block of about that size stands in the same memory."""
    pool = KvPool()
    block = pool.take(SHAPE, rows=8, columns=40)
    pool.give(block)
    again = pool.take(SHAPE, rows=10, columns=30)
    assert again.buffer.data_ptr() == block.buffer.data_ptr()


@given(
    st.lists(
        st.one_of(st.tuples(st.integers(1, 9), st.integers(1, 60)), st.integers(0, 30)),
        max_size=60,
    )
)
def test_no_more_is_held_than_was_lent_at_once(actions):
    """Any order of taking (rows, columns) and giving back: lent blocks never overlap, and all
    buffers together are no larger than the largest sum that was lent."""
    pool = KvPool()
    lent: list[KvBlock] = []
    largest = 0
    for action in actions:
        if isinstance(action, tuple):
            rows, columns = action
            lent.append(pool.take(SHAPE, rows=rows, columns=columns))
        elif lent:
            pool.give(lent.pop(action % len(lent)))
        assert len({block.buffer.data_ptr() for block in lent}) == len(lent)
        largest = max(largest, sum(block.buffer.nbytes for block in lent))
        assert pool.held_bytes <= largest
