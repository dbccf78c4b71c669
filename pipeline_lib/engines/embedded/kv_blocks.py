"""Reusable memory for keys and values, written in place.

Three measurements decide the layout: memory read as one contiguous stream is three times as fast as
rows with gaps, a fresh allocation costs ten times a write to memory in use, and a tensor that grows by one
position is copied at every step. So blocks are contiguous, have spare columns, and are cut from
large buffers that are reused.

Axes: N tensors of one shape (keys and values of all layers), R rows (one per sequence), H key-value
heads, C columns (positions), D channels of a head.
"""

import math
import threading
from collections import Counter
from dataclasses import dataclass, field, replace

import torch

_GROWTH = 0.125
"""Size of a new buffer, at least, as a share of the memory held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KvShape:
    """Layout of one position of one sequence."""

    tensors: tuple[tuple[int, int], ...]
    """(heads, channels) of the keys of layer 0, its values, the keys of layer 1 and so on."""
    dtype: torch.dtype
    device: torch.device

    @property
    def numbers(self) -> int:
        """Numbers of all tensors."""
        return sum(heads * channels for heads, channels in self.tensors)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Span:
    """Numbers ``start`` to ``stop`` of a buffer."""

    buffer: torch.Tensor
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Numbers."""
        return self.stop - self.start

    @property
    def is_whole(self) -> bool:
        """True if it is all of the buffer."""
        return self.size == len(self.buffer)


@dataclass(frozen=True, slots=True, kw_only=True)
class KvBlock:
    """Keys and values of some rows and columns. All numbers in it are finite."""

    shape: KvShape
    columns: int
    slabs: tuple[torch.Tensor, ...]
    """[N, R, H, C, D]: tensors of one shape together, so that one operation moves them all."""
    keys: tuple[torch.Tensor, ...]
    """[R, H, C, D] of each layer, a view of a slab."""
    values: tuple[torch.Tensor, ...]
    """As ``keys``."""
    span: Span
    """The memory of the slabs."""


@dataclass(slots=True)
class KvPool:
    """Allocates blocks from a few large buffers. Thread-safe.

    A buffer without a block is given back once a block needs a larger one.
    """

    _free: list[Span] = field(default_factory=list)
    """Adjacent free spans are merged."""
    held_bytes: int = 0
    """Bytes of all buffers, in use or free."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def allocate(self, shape: KvShape, *, rows: int, columns: int) -> KvBlock:
        """A block of ``rows`` x ``columns`` with undefined content."""
        with self._lock:
            span = self._take_span(shape, shape.numbers * rows * columns)
        return _block(span, shape, rows=rows, columns=columns)

    def release(self, block: KvBlock) -> None:
        """Make the memory of a block available again; no view of it may be read afterwards."""
        with self._lock:
            whole = block.span
            for free in [free for free in self._free if free.buffer is whole.buffer]:
                if free.stop == whole.start or free.start == whole.stop:
                    self._free.remove(free)
                    whole = replace(
                        whole,
                        start=min(free.start, whole.start),
                        stop=max(free.stop, whole.stop),
                    )
            self._free.append(whole)

    def _take_span(self, shape: KvShape, size: int) -> Span:
        """The start of the smallest free span that is large enough, or of a new buffer."""
        kind = (shape.dtype, shape.device)
        fitting = [
            free
            for free in self._free
            if free.size >= size and (free.buffer.dtype, free.buffer.device) == kind
        ]
        if fitting:
            found = min(fitting, key=lambda free: free.size)
            self._free.remove(found)
        else:
            # Blocks grow with their sequences: without this, the buffers of all shorter ones would stay.
            for span in [free for free in self._free if free.is_whole]:
                self._free.remove(span)
                self.held_bytes -= span.size * span.buffer.itemsize
            found = self._new_buffer(shape, size)
        if found.size > size:
            self._free.append(replace(found, start=found.start + size))
        return replace(found, stop=found.start + size)

    def _new_buffer(self, shape: KvShape, size: int) -> Span:
        # Growth by a share of the whole gives few buffers, and few gaps between spans.
        size = max(size, int(_GROWTH * self.held_bytes / shape.dtype.itemsize))
        self.held_bytes += size * shape.dtype.itemsize
        # Zeros: a masked position is multiplied by 0, and 0 x NaN is NaN.
        buffer = torch.zeros(size, dtype=shape.dtype, device=shape.device)
        return Span(buffer=buffer, start=0, stop=size)


def _block(span: Span, shape: KvShape, *, rows: int, columns: int) -> KvBlock:
    slabs: dict[tuple[int, int], torch.Tensor] = {}
    start = span.start
    for (heads, channels), count in Counter(shape.tensors).items():
        sizes = (count, rows, heads, columns, channels)
        slabs[heads, channels] = span.buffer[start : start + math.prod(sizes)].view(sizes)
        start += math.prod(sizes)
    layers = {size: iter(slab) for size, slab in slabs.items()}
    views = [next(layers[size]) for size in shape.tensors]
    return KvBlock(
        shape=shape,
        columns=columns,
        slabs=tuple(slabs.values()),
        keys=tuple(views[0::2]),
        values=tuple(views[1::2]),
        span=span,
    )
