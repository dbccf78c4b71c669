"""Operations of the simulated device: the CPU's, on tensors that share its memory.

A tensor of the device is a plain torch tensor on `cuda:0`: its memory is passed by DLPack, with the device of
the exchanged structure changed. One function is the kernel of all operations.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from typing import Any

import torch

from tests.simulated_cuda import device

CPU, CUDA = 1, 2
"""DLPack's numbers of device types."""
VIEWS = {"as_strided", "view", "_reshape_alias", "unfold", "set_"}
"""Their CPU kernels touch no memory and ask for no device."""
WAITS = {
    *("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero"),
    *("_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive"),
}
"""The host waits for a number of the device. Copies between both are counted where they are made."""
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
"""Their indices may be on the CPU; they are then copied."""
NOT_DETERMINISTIC = {
    *("cumsum", "cumsum_", "cumprod", "cumprod_", "logcumsumexp", "_logcumsumexp"),
    *("put_", "histc", "kthvalue", "median", "nanmedian"),
}
"""Without a deterministic form on CUDA; sums of whole numbers have one."""
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm"}
WORKSPACES = {":4096:8", ":16:8"}
STRICT = 2

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_on_cpu = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
Originals = dict[int, tuple[torch.Tensor, torch.Tensor]]
"""By the id of a tensor on the CPU: itself, and the tensor of the device whose memory it shares."""


def register() -> list[torch.library.Library]:
    """Register the kernels; they last as long as the result."""
    every = torch.library.Library("_", "IMPL")
    every.fallback(run, "CUDA")
    # These have a kernel for all devices, which asks for CUDA's own.
    single = torch.library.Library("aten", "IMPL")
    single.impl("copy_", copy, "CUDA")
    single.impl("resize_", resize, "CUDA")
    return [every, single]


def moved(tensor: torch.Tensor, kind: int) -> torch.Tensor:
    """A tensor on the same memory that is on another device by its own account."""
    capsule = torch._C._to_dlpack(tensor)
    place = (ctypes.c_int32 * 2).from_address(_pointer(capsule, b"dltensor") + 8)
    place[0], place[1] = kind, 0
    return torch._C._from_dlpack(capsule)


def run(op: Any, *args: Any, **options: Any) -> Any:
    """Any operation, by the CPU's kernel; tensors of the result are on the device."""
    name = op._schema.name.removeprefix("aten::")
    if name in VIEWS:
        return op.redispatch(_on_cpu, *args, **options)
    tensors = [one for one in flat((args, options)) if isinstance(one, torch.Tensor)]
    check_devices(name, tensors)
    check_deterministic(name, tensors)
    if name in WAITS:
        device.SYNCS[f"{name} at {line()}"] += 1
    originals: Originals = {}
    args = tuple(down(one, originals) for one in args)
    out = options.get("out")
    options = {key: down(one, originals) for key, one in options.items() if key != "pin_memory"}
    if isinstance(out, torch.Tensor) and not out.numel():
        # A result without memory of its own grows with what is written.
        options["out"] = torch.empty(0, dtype=out.dtype)
        return out.set_(moved(run_on_cpu(name, op, args, options), CUDA))
    found = run_on_cpu(name, op, args, options)
    return found if name == "_local_scalar_dense" else up(found, originals)


def run_on_cpu(name: str, op: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The CPU's kernel; products with a dtype of their own exist on CUDA alone."""
    if not op._overloadname.startswith("dtype"):
        return op(*args, **options)
    *args, dtype = args
    out = options.pop("out", None)
    found = getattr(torch, name)(*[one.float() for one in args], **options).to(dtype)
    return found if out is None else out.resize_(found.shape).copy_(found)


def copy(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """A copy from or to the device, or on it."""
    if target.is_cuda != source.is_cuda:
        direction = "to the device" if target.is_cuda else "to the host"
        device.SYNCS[f"copy {direction} at {line()}"] += 1
    ends = [moved(one, CPU) if one.is_cuda else one for one in (target, source)]
    ends[0].copy_(ends[1])
    return target


def resize(tensor: torch.Tensor, size: Any, memory_format: Any = None) -> torch.Tensor:
    """Another size, on memory of its own."""
    fresh = moved(torch.empty(size, dtype=tensor.dtype), CUDA)
    kept = min(tensor.numel(), fresh.numel())
    if kept:
        fresh.view(-1)[:kept].copy_(tensor.reshape(-1)[:kept])
    return tensor.set_(fresh)


def down(value: Any, originals: Originals) -> Any:
    """``value`` with its tensors and devices on the CPU."""
    if isinstance(value, torch.Tensor) and value.is_cuda:
        alias = moved(value, CPU)
        originals[id(alias)] = (alias, value)
        return alias
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if isinstance(value, list | tuple):
        return type(value)([down(one, originals) for one in value])
    return value


def up(value: Any, originals: Originals) -> Any:
    """``value`` with its tensors on the device: arguments stay themselves."""
    if isinstance(value, torch.Tensor):
        known = originals.get(id(value))
        return moved(value, CUDA) if known is None else known[1]
    if isinstance(value, list | tuple):
        return type(value)([up(one, originals) for one in value])
    return value


def flat(value: Any) -> Iterator[Any]:
    """The leaves of nested arguments."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from flat(one)
    elif isinstance(value, dict):
        yield from flat(list(value.values()))
    else:
        yield value


def check_devices(name: str, tensors: list[torch.Tensor]) -> None:
    """Refuse tensors on the CPU beside the device's, as CUDA does: only single numbers may be there."""
    strange = [one for one in tensors if not one.is_cuda and one.dim()]
    if strange and name in INDEXED and tensors[0].is_cuda:
        device.SYNCS[f"indices to the device at {line()}"] += 1
    elif strange:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
            f"({name} at {line()})"
        )


def check_deterministic(name: str, tensors: list[torch.Tensor]) -> None:
    """Refuse what strict deterministic mode refuses on CUDA."""
    if torch.get_deterministic_debug_mode() != STRICT:
        return
    if name in NOT_DETERMINISTIC and tensors[0].is_floating_point():
        raise RuntimeError(f"{name} does not have a deterministic implementation ({line()})")
    if name in PRODUCTS and os.environ.get("CUBLAS_WORKSPACE_CONFIG") not in WORKSPACES:
        raise RuntimeError("deterministic products on CUDA need CUBLAS_WORKSPACE_CONFIG")


def line() -> str:
    """The innermost line of the project on the stack."""
    frame = sys._getframe()
    while frame is not None:
        name = frame.f_code.co_filename
        if "pipeline_lib" in name:
            return f"{name[name.index('pipeline_lib') :]}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "a library"
