"""The processes of one training: the rank and device of each, and what all must do together.

Ray Train, torchrun and `flows.run.ranks` start them, with the variables of torch.distributed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.environment import environment

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Rank and device of this process among ``world`` processes."""

    rank: int
    world: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        """True in rank 0, which writes files and reports progress."""
        return self.rank == 0

    def any(self, flag: bool) -> bool:  # noqa: FBT001 - the reduced value, not an option
        """Logical or of ``flag`` over all processes."""
        if self.world == 1:
            return flag
        shared = torch.tensor(float(flag), device=self.device)
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
        return bool(shared.item())

    def barrier(self) -> None:
        """Block until all processes arrive."""
        if self.world > 1:
            dist.barrier()

    def from_main(self, make: Callable[[], Made]) -> Made:
        """Call ``make`` in rank 0 only; every process gets its picklable result, or raises its error."""
        if self.world == 1:
            return make()
        box: list[Any] = [None, None]
        if self.is_main:
            try:
                box[0] = make()
            except ReasonloopError as error:
                box[1] = error
            except Exception as error:
                box[1] = ReasonloopError(f"process 0: {error!r}")
                dist.broadcast_object_list(box, src=0)
                raise
        dist.broadcast_object_list(box, src=0)
        if box[1] is not None:
            raise box[1]
        made: Made = box[0]
        return made

    def gather(self, items: Sequence[Made]) -> list[Made]:
        """The picklable ``items`` of all processes, by rank."""
        if self.world == 1:
            return [*items]
        parts: list[Any] = [None] * self.world
        dist.all_gather_object(parts, [*items])
        return [one for part in parts for one in part]

    def share(self, items: Sequence[Made]) -> Sequence[Made]:
        """Of ``items`` that all processes have those of this one; together the processes have each once."""
        return items[self.rank :: self.world]

    def sum_gradients(self, weights: Iterable[nn.Parameter]) -> None:
        """Add up the gradients of all processes; a process may lack some."""
        if self.world == 1:
            return
        trained = [weight for weight in weights if weight.requires_grad]
        for weight in trained:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        sum_together([weight.grad for weight in trained if weight.grad is not None])


def sum_together(tensors: Sequence[Tensor]) -> None:
    """Replace each by its sum over all processes: one all-reduce, since most are small."""
    flat = torch.cat([one.reshape(-1) for one in tensors])
    dist.all_reduce(flat)
    for one, part in zip(tensors, torch.split(flat, [one.numel() for one in tensors]), strict=True):
        one.copy_(part.view_as(one))


def present_devices() -> Devices:
    """Those of the open process group; without one this process alone."""
    local = int(environment("LOCAL_RANK") or 0)
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    if not dist.is_initialized():
        return Devices(rank=0, world=1, device=device)
    return Devices(rank=dist.get_rank(), world=dist.get_world_size(), device=device)


@contextmanager
def join_process_group() -> Iterator[Devices]:
    """Be the process that the variables of torch.distributed describe, if there are any, in a group for the block."""
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(environment("LOCAL_RANK") or 0))
    if dist.is_initialized() or int(environment("WORLD_SIZE") or 1) == 1:
        yield present_devices()
        return
    dist.init_process_group("nccl" if gpu else "gloo")
    try:
        yield present_devices()
    finally:
        dist.destroy_process_group()
