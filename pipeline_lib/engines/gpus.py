"""The GPUs of this machine."""


def visible_gpus() -> int:
    """CUDA devices visible to this process and to the engines that it starts."""
    import torch  # noqa: PLC0415 - it takes seconds, and planning needs none

    return torch.cuda.device_count()


def gpu_names() -> list[str]:
    """Name and memory of each visible GPU."""
    import torch  # noqa: PLC0415 - as above

    found = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return [f"{one.name}, {one.total_memory / 2**30:.0f} GiB" for one in found]
