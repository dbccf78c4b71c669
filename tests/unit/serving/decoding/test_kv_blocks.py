"""Memory for keys and values is used again, and stays within what is in use."""

import hypothesis.strategies as st
import torch
from hypothesis import given

from pipeline_lib.serving.decoding.kv_blocks import KvBlock, KvPool, KvShape

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
    """Smaller blocks stand in its memory, and when they are back too, one of its size again."""
    pool = KvPool()
    pool.give(pool.take(SHAPE, rows=8, columns=40))
    held = pool.held_bytes
    for block in [pool.take(SHAPE, rows=2, columns=40) for _ in range(4)]:
        pool.give(block)
    pool.take(SHAPE, rows=8, columns=40)
    assert pool.held_bytes == held


@given(
    st.lists(
        st.one_of(st.tuples(st.integers(1, 9), st.integers(1, 60)), st.integers(0, 30)),
        max_size=60,
    )
)
def test_lent_blocks_keep_what_is_written(actions):
    """Any order of taking (rows, columns) and giving back: nobody writes into a block that is lent,
    and once all are back, one as large as the largest needs no new memory."""
    pool = KvPool()
    lent: dict[int, KvBlock] = {}
    largest = 0
    for number, action in enumerate(actions):
        if isinstance(action, tuple):
            rows, columns = action
            lent[number] = pool.take(SHAPE, rows=rows, columns=columns)
            largest = max(largest, rows * columns)
            for slab in lent[number].slabs:
                slab.fill_(number)
        elif lent:
            pool.give(lent.pop(sorted(lent)[action % len(lent)]))
        assert all((slab == n).all() for n, block in lent.items() for slab in block.slabs)
    for block in lent.values():
        pool.give(block)
    held = pool.held_bytes
    if largest:
        pool.take(SHAPE, rows=1, columns=largest)
    assert pool.held_bytes == held
