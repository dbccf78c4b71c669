"""The functions of ``torch.cuda`` that ask the CUDA runtime, answered for the simulated device."""

import types
from typing import Any

import safetensors.torch
import torch
import torch._dynamo

from tests.simulated_cuda import device

PROPERTIES = types.SimpleNamespace(
    name="simulated", major=9, minor=0, total_memory=80 * 2**30, multi_processor_count=132
)
YES = ("is_available", "is_initialized", "is_bf16_supported")
NO = ("is_current_stream_capturing", "_is_in_bad_fork")
ZERO = ("current_device", "memory_allocated", "max_memory_allocated")
NOTHING = (
    *("_lazy_init", "init", "set_device", "empty_cache", "synchronize", "manual_seed"),
    *("manual_seed_all", "set_rng_state", "set_rng_state_all", "reset_peak_memory_stats"),
)


def replace() -> None:
    """Replace them."""
    answers: dict[str, Any] = {name: lambda *_, **__: True for name in YES}
    answers |= {name: lambda *_, **__: False for name in NO}
    answers |= {name: lambda *_, **__: 0 for name in ZERO}
    answers |= {name: lambda *_, **__: None for name in NOTHING}
    answers |= {
        "device_count": lambda: device.VISIBLE[0],
        "get_device_properties": lambda *_: PROPERTIES,
        "get_device_capability": lambda *_: (PROPERTIES.major, PROPERTIES.minor),
        "get_device_name": lambda *_: PROPERTIES.name,
        "mem_get_info": lambda *_: (PROPERTIES.total_memory, PROPERTIES.total_memory),
        "get_rng_state": read_generator,
        "get_rng_state_all": lambda: [read_generator(one) for one in range(device.VISIBLE[0])],
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
        if hasattr(torch.cuda.random, name):
            setattr(torch.cuda.random, name, answer)
    safetensors.torch.load_file = read_tensors
    torch.Tensor.pin_memory = lambda self, *_, **__: self
    torch.Tensor.is_pinned = lambda *_, **__: False


def read_generator(place: Any = "cuda") -> torch.Tensor:
    """A state of the generator of a device, which starts CUDA there."""
    device.STARTED.add(place if isinstance(place, int) else torch.device(place).index or 0)
    return torch.zeros(16, dtype=torch.uint8)


read_on_cpu = safetensors.torch.load_file


def read_tensors(path: Any, device: Any = "cpu", **options: Any) -> dict[str, torch.Tensor]:
    """A file's tensors, copied to the device; the library would read them through pinned memory."""
    return {name: one.to(device) for name, one in read_on_cpu(path, **options).items()}
