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
from dataclasses import dataclass, field

import torch


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
    buffer: torch.Tensor
    """What the slabs are cut from."""


@dataclass(slots=True)
class KvPool:
    """Lends blocks, and keeps their buffers when they come back. Safe to use from several threads.

    It never holds more, lent and free together, than was lent at once.
    """

    _free: list[torch.Tensor] = field(default_factory=list)
    """The buffer that came back last stands last."""
    _lent_bytes: int = 0
    _peak_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def held_bytes(self) -> int:
        """Bytes of all buffers, lent and free."""
        with self._lock:
            return self._lent_bytes + sum(buffer.nbytes for buffer in self._free)

    def take(self, shape: KvShape, *, rows: int, columns: int) -> KvBlock:
        """A block of ``rows`` x ``columns``. What it holds has no meaning."""
        numbers = shape.numbers * rows * columns
        return _block(self._buffer(shape, numbers), shape, rows=rows, columns=columns)

    def give(self, block: KvBlock) -> None:
        """Take back a block that nobody reads any more."""
        with self._lock:
            self._lent_bytes -= block.buffer.nbytes
            self._free.append(block.buffer)
            self._shrink()

    def _buffer(self, shape: KvShape, numbers: int) -> torch.Tensor:
        size = _rounded(numbers)
        with self._lock:
            fitting = [
                place
                for place, free in enumerate(self._free)
                if size <= free.numel() <= 2 * size
                and (free.dtype, free.device) == (shape.dtype, shape.device)
            ]
            found = min(fitting, key=lambda place: self._free[place].numel(), default=None)
            buffer = None if found is None else self._free.pop(found)
            self._lent_bytes += size * shape.dtype.itemsize if buffer is None else buffer.nbytes
            self._peak_bytes = max(self._peak_bytes, self._lent_bytes)
            self._shrink()
        # Zeros, not any bits: a masked position is multiplied by 0, and 0 x NaN is NaN.
        return (
            torch.zeros(size, dtype=shape.dtype, device=shape.device) if buffer is None else buffer
        )

    def _shrink(self) -> None:
        free = sum(buffer.nbytes for buffer in self._free)
        while free > self._peak_bytes - self._lent_bytes:
            free -= self._free.pop(0).nbytes


def _rounded(size: int) -> int:
    """Up to the next of 8 to 15 times a power of two: few sizes, and little waste."""
    step = 1 << max(size.bit_length() - 4, 0)
    return -(-size // step) * step


def _block(buffer: torch.Tensor, shape: KvShape, *, rows: int, columns: int) -> KvBlock:
    slabs: dict[tuple[int, int], torch.Tensor] = {}
    start = 0
    for (heads, channels), count in Counter(shape.tensors).items():
        sizes = (count, rows, heads, columns, channels)
        slabs[heads, channels] = buffer[start : start + math.prod(sizes)].view(sizes)
        start += math.prod(sizes)
    layers = {size: iter(slab) for size, slab in slabs.items()}
    views = [next(layers[size]) for size in shape.tensors]
    return KvBlock(
        shape=shape,
        columns=columns,
        slabs=tuple(slabs.values()),
        keys=tuple(views[0::2]),
        values=tuple(views[1::2]),
        buffer=buffer,
    )
