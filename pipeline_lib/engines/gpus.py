"""The GPUs of this machine."""

import gc


def visible_gpus() -> int:
    """CUDA devices visible to this process and to the engines that it starts."""
    import torch  # noqa: PLC0415 - it takes seconds, and planning needs none

    return torch.cuda.device_count()


def gpu_ids() -> list[str]:
    """An id of each visible GPU, the same in every process that sees it."""
    import torch  # noqa: PLC0415 - as above

    found = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return [str(one.uuid) for one in found]


def free_gpu_memory() -> None:
    """Return the memory of freed tensors to the GPU, for other processes."""
    import torch  # noqa: PLC0415 - as above

    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()


def gpu_names() -> list[str]:
    """Name and memory of each visible GPU."""
    import torch  # noqa: PLC0415 - as above

    found = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return [f"{one.name}, {one.total_memory / 2**30:.0f} GiB" for one in found]
