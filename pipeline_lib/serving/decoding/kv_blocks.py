"""Memory for keys and values that is written in place and used again.

Memory that is read as one stream comes three times as fast as rows with gaps between them, fresh
memory costs ten times what writing to it again does, and a tensor that grows by one position a step
is copied at every step. So blocks are tight, have room for a few positions more, and are cut from
buffers that serve one block after another.

Axes: N tensors of one shape (keys and values of all layers), R rows, H key-value heads, C columns
(positions), D channels of a head.
"""

import math
import threading
from collections import Counter
from dataclasses import dataclass, field, replace

import torch

_GROWTH = 0.125
"""A new buffer has at least this share of the memory that is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KvShape:
    """What one position of one row holds."""

    tensors: tuple[tuple[int, int], ...]
    """(heads, channels) of the keys of layer 0, its values, the keys of layer 1 and so on."""
    dtype: torch.dtype
    device: torch.device

    @property
    def numbers(self) -> int:
        """How many numbers that is."""
        return sum(heads * channels for heads, channels in self.tensors)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Span:
    """Numbers ``start`` to ``stop`` of a buffer."""

    buffer: torch.Tensor
    start: int
    stop: int

    @property
    def size(self) -> int:
        """How many numbers."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class KvBlock:
    """Keys and values of some rows and columns. All numbers in it are finite."""

    shape: KvShape
    columns: int
    slabs: tuple[torch.Tensor, ...]
    """[N, R, H, C, D]: tensors of one shape stand together, so that one operation moves them all."""
    keys: tuple[torch.Tensor, ...]
    """[R, H, C, D] of each layer, a view of a slab."""
    values: tuple[torch.Tensor, ...]
    span: Span
    """Where the slabs stand."""


@dataclass(slots=True)
class KvPool:
    """Lends blocks of a few large buffers. Safe to use from several threads."""

    _free: list[Span] = field(default_factory=list)
    """No two of them touch."""
    _held_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def held_bytes(self) -> int:
        """Bytes of all buffers."""
        return self._held_bytes

    def take(self, shape: KvShape, *, rows: int, columns: int) -> KvBlock:
        """A block of ``rows`` x ``columns``. What it holds has no meaning."""
        with self._lock:
            span = self._span(shape, shape.numbers * rows * columns)
        return _block(span, shape, rows=rows, columns=columns)

    def give(self, block: KvBlock) -> None:
        """Take back a block that nobody reads any more."""
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

    def _span(self, shape: KvShape, size: int) -> Span:
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
            found = self._new_buffer(shape, size)
        if found.size > size:
            self._free.append(replace(found, start=found.start + size))
        return replace(found, stop=found.start + size)

    def _new_buffer(self, shape: KvShape, size: int) -> Span:
        # Growing by a share of what there is makes few buffers, and few gaps between spans.
        size = max(size, int(_GROWTH * self._held_bytes / shape.dtype.itemsize))
        self._held_bytes += size * shape.dtype.itemsize
        # Zeros, not any bits: a masked position is multiplied by 0, and 0 x NaN is NaN.
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
