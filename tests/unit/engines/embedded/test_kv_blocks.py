"""Memory for keys and values is reused."""

import hypothesis.strategies as st
import torch
from hypothesis import given

from pipeline_lib.engines.embedded.kv_blocks import KvBlock, KvPool, KvShape

SHAPE = KvShape(
    tensors=((2, 4), (2, 3), (2, 4), (2, 3)), dtype=torch.float32, device=torch.device("cpu")
)
"""Two layers; values have fewer channels than keys."""


def test_keys_and_values_are_views_of_the_slabs():
    """Writes to a layer's keys or values are in the slab of their shape."""
    block = KvPool().allocate(SHAPE, rows=3, columns=5)
    assert [tuple(keys.shape) for keys in block.keys] == [(3, 2, 5, 4)] * 2
    assert [tuple(values.shape) for values in block.values] == [(3, 2, 5, 3)] * 2
    for number, tensor in enumerate([*block.keys, *block.values]):
        tensor.fill_(number)
    assert [slab[:, 0, 0, 0, 0].tolist() for slab in block.slabs] == [[0, 1], [2, 3]]


def test_released_memory_is_reused():
    """For smaller blocks, and after their release for a block of the first size."""
    pool = KvPool()
    pool.release(pool.allocate(SHAPE, rows=8, columns=40))
    held = pool.held_bytes
    for block in [pool.allocate(SHAPE, rows=2, columns=40) for _ in range(4)]:
        pool.release(block)
    pool.allocate(SHAPE, rows=8, columns=40)
    assert pool.held_bytes == held


def test_memory_of_shorter_blocks_is_given_back():
    """A block that grows, as its sequences do, holds at most the present and the next one."""
    pool, block = KvPool(), None
    for columns in range(40, 400, 20):
        grown = pool.allocate(SHAPE, rows=8, columns=columns)
        if block is not None:
            pool.release(block)
        block = grown
    assert pool.held_bytes < 2.5 * block.span.size * SHAPE.dtype.itemsize


@given(
    st.lists(
        st.one_of(st.tuples(st.integers(1, 9), st.integers(1, 60)), st.integers(0, 30)),
        max_size=60,
    )
)
def test_allocated_blocks_do_not_overlap(actions):
    """In any order of allocation (rows, columns) and release, each block keeps its content; after
    the last release, one as large as the largest needs no new memory."""
    pool = KvPool()
    allocated: dict[int, KvBlock] = {}
    largest = 0
    for number, action in enumerate(actions):
        if isinstance(action, tuple):
            rows, columns = action
            allocated[number] = pool.allocate(SHAPE, rows=rows, columns=columns)
            largest = max(largest, rows * columns)
            for slab in allocated[number].slabs:
                slab.fill_(number)
        elif allocated:
            pool.release(allocated.pop(sorted(allocated)[action % len(allocated)]))
        assert all((slab == n).all() for n, block in allocated.items() for slab in block.slabs)
    for block in allocated.values():
        pool.release(block)
    held = pool.held_bytes
    if largest:
        pool.allocate(SHAPE, rows=1, columns=largest)
    assert pool.held_bytes == held
