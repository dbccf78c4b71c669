"""The GPUs of this machine."""


def visible_gpus() -> int:
    """CUDA devices visible to this process and to the engines that it starts."""
    import torch  # noqa: PLC0415 - it takes seconds, and planning needs none

    return torch.cuda.device_count()
