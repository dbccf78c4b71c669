"""Data-parallel training: rank and device of this process, and its collectives.

torchrun starts one process per device. Gradients are averaged explicitly rather than by DDP,
because a training step is not a plain forward pass and puzzle vectors are not parameters.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from pipeline_lib.params.environment import environment
from pipeline_lib.systems.prr.model.embeddings import PuzzleEmbedding, UsedRows


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

    def sync_gradients(self, model: nn.Module) -> None:
        """Average parameter gradients; gather the puzzle vectors in use with their gradients."""
        if self.world == 1:
            return
        _average([p.grad for p in model.parameters() if p.grad is not None], self.world)
        for module in model.modules():
            if isinstance(module, PuzzleEmbedding) and module.used is not None:
                module.used = _gather_rows(module.used, self.world)


@contextmanager
def join_process_group() -> Iterator[Devices]:
    """A single process, or a member of the group started by torchrun."""
    world = int(environment("WORLD_SIZE") or 1)
    local = int(environment("LOCAL_RANK") or 0)
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", local) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    if world == 1:
        yield Devices(rank=0, world=1, device=device)
        return
    dist.init_process_group("nccl" if gpu else "gloo")
    try:
        yield Devices(rank=dist.get_rank(), world=world, device=device)
    finally:
        dist.destroy_process_group()


def _average(gradients: Iterable[Tensor], world: int) -> None:
    """One all-reduce over the flattened gradients, since most are small."""
    listed = list(gradients)
    flat = torch.cat([gradient.reshape(-1) for gradient in listed])
    dist.all_reduce(flat)
    flat /= world
    parts = torch.split(flat, [gradient.numel() for gradient in listed])
    for gradient, part in zip(listed, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def _gather_rows(used: UsedRows, world: int) -> UsedRows:
    """Rows of all processes with their gradients, ordered by rank."""

    def gather(mine: Tensor) -> Tensor:
        parts = [torch.empty_like(mine) for _ in range(world)]
        dist.all_gather(parts, mine.contiguous())
        return torch.cat(parts)

    vectors_BD = gather(used.vectors_BD.detach())
    if used.vectors_BD.grad is not None:
        vectors_BD.grad = gather(used.vectors_BD.grad)
    return UsedRows(
        ids_B=gather(used.ids_B),
        real_B=gather(used.real_B.to(torch.uint8)).bool(),
        vectors_BD=vectors_BD,
    )
