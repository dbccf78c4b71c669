"""Arguments that the trainers of all methods share, and the one place where a config is made of them."""

from collections.abc import Mapping
from typing import Any, TypeVar

from transformers import TrainingArguments

_Config = TypeVar("_Config", bound=TrainingArguments)


class TrainerSettings:
    """Arguments by their names in transformers; no mapping, so that no trainer unpacks them past `make`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __or__(self, more: Mapping[str, Any]) -> "TrainerSettings":
        return TrainerSettings({**self._values, **more})

    def make(self, config: type[_Config], **more: Any) -> _Config:
        """A ``config`` of these arguments, changed by ``more``, for one GPU per process.

        Where several are visible, transformers would multiply the batch by their number, and TRL refuse.
        """
        args = config(**{**self._values, **more})
        if args.n_gpu > 1:
            args._n_gpu = 1  # noqa: SLF001 - the property has no setter
        return args
