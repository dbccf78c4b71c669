"""The config of a trainer: made in one place, for one GPU per process."""

from functools import cached_property

import pytest
import torch
from transformers import TrainingArguments

from pipeline_lib.train.trainer_settings import TrainerSettings


class FourGpus(TrainingArguments):
    """Arguments on a machine with four GPUs, all visible."""

    @cached_property
    def _setup_devices(self):
        self._n_gpu = 4
        return torch.device("cpu")


def test_a_batch_is_not_multiplied_by_the_visible_gpus(tmp_path):
    """Two rows on four GPUs: 8 by transformers, 2 here, and one GPU, without which TRL refuses."""
    values = {"output_dir": str(tmp_path), "per_device_train_batch_size": 4}
    assert FourGpus(**values | {"per_device_train_batch_size": 2}).train_batch_size == 8
    args = TrainerSettings(values).make(FourGpus, per_device_train_batch_size=2)
    assert (args.train_batch_size, args.n_gpu) == (2, 1)


def test_no_trainer_makes_its_config_elsewhere(tmp_path):
    """The settings cannot be unpacked into the arguments of a config."""
    settings = TrainerSettings({"output_dir": str(tmp_path)})
    with pytest.raises(TypeError, match="must be a mapping"):
        TrainingArguments(**settings)
