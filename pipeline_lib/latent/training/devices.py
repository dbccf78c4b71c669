"""One device, or several that train one model: who this process is among them, and what they share.

Several are started by torchrun, one process each. Gradients are averaged here by hand and not by a
wrapper, since a step is no plain forward pass and puzzle vectors are no parameters.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from pipeline_lib.latent.model.embeddings import PuzzleEmbedding, UsedRows
from pipeline_lib.params.environment import environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """This process among ``world`` of them."""

    rank: int
    world: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes files and reports."""
        return self.rank == 0

    def any(self, flag: bool) -> bool:  # noqa: FBT001 - the value that is shared, no option
        """Whether ``flag`` holds in any of the processes."""
        if self.world == 1:
            return flag
        shared = torch.tensor(float(flag), device=self.device)
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
        return bool(shared.item())

    def wait(self) -> None:
        """Go on when all processes are here."""
        if self.world > 1:
            dist.barrier()

    def share_gradients(self, model: nn.Module) -> None:
        """Average the gradients of the parameters; bring together the puzzle vectors in use."""
        if self.world == 1:
            return
        _average([p.grad for p in model.parameters() if p.grad is not None], self.world)
        for module in model.modules():
            if isinstance(module, PuzzleEmbedding) and module.used is not None:
                module.used = _gathered(module.used, self.world)


@contextmanager
def joined() -> Iterator[Devices]:
    """This process alone, or as a member of the group that torchrun started."""
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
    """One message for all of them, since most are small."""
    listed = list(gradients)
    flat = torch.cat([gradient.reshape(-1) for gradient in listed])
    dist.all_reduce(flat)
    flat /= world
    parts = torch.split(flat, [gradient.numel() for gradient in listed])
    for gradient, part in zip(listed, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def _gathered(used: UsedRows, world: int) -> UsedRows:
    """The rows of all processes, with their gradients, in the order of ranks."""

    def everyone(mine: Tensor) -> Tensor:
        parts = [torch.empty_like(mine) for _ in range(world)]
        dist.all_gather(parts, mine.contiguous())
        return torch.cat(parts)

    vectors_BD = everyone(used.vectors_BD.detach())
    if used.vectors_BD.grad is not None:
        vectors_BD.grad = everyone(used.vectors_BD.grad)
    return UsedRows(
        ids_B=everyone(used.ids_B),
        real_B=everyone(used.real_B.to(torch.uint8)).bool(),
        vectors_BD=vectors_BD,
    )
