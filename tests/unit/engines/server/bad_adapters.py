"""Adapter folders that must be refused, each damaged in one way."""

import json
import os
import pathlib
import shutil
import struct
from collections.abc import Callable

import torch
from safetensors.torch import load_file, save_file

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
SLOW = "([a-z_.0-9]+)+!"
"""A regular expression that takes longer than the universe on a long name."""

WRONG_VALUES = (None, True, -1, 0, 2**70, 1.5, "x", "(", [], [[1]], {}, {"a": {"b": []}}, [None])
FIELDS = (
    "peft_type",
    "r",
    "lora_alpha",
    "target_modules",
    "exclude_modules",
    "layers_to_transform",
    "layers_pattern",
    "rank_pattern",
    "alpha_pattern",
    "bias",
    "init_lora_weights",
    "fan_in_fan_out",
    "use_rslora",
    "use_dora",
    "modules_to_save",
    "megatron_config",
    "layer_replication",
    "trainable_token_indices",
    "lora_bias",
    "target_parameters",
    "task_type",
    "auto_mapping",
    "loftq_config",
)

REFUSED_FIELDS: dict[str, dict[str, object]] = {
    "a pattern that is not a name": {"rank_pattern": {"(": 4}},
    "a slow rank pattern": {"rank_pattern": {SLOW: 4}},
    "a slow alpha pattern": {"alpha_pattern": {SLOW: 4}},
    "a rank pattern of anything": {"rank_pattern": {".*": 4}},
    "an open alpha pattern": {"alpha_pattern": {"q_proj[": 1}},
    "Megatron's keys": {"megatron_config": {"hidden": 1}, "megatron_core": "antigravity"},
    "Megatron's keys, of no module": {"megatron_config": {"hidden": 1}, "megatron_core": "no.such"},
    "a huge rank": {"r": 1 << 30},
    "a huge rank in a pattern": {"rank_pattern": {"q_proj": 1 << 30}},
    "no rank": {"r": 0},
    "a rank below zero": {"r": -4},
    "a rank as text": {"r": "four"},
    "an alpha that overflows": {"lora_alpha": 1e300},
    "parameters of experts": {"target_parameters": ["mlp.experts"]},
    "an unknown peft_type": {"peft_type": "LORA2"},
    "another peft_type": {"peft_type": "IA3"},
    "biases": {"bias": "all"},
    "whole modules": {"modules_to_save": ["lm_head"]},
    "another rank than the weights": {"r": 5},
    "no kind": {"peft_type": None},
    "an unknown field that is set": {"use_newest_variant": True},
}
TEXTS: dict[str, bytes] = {
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "an open bracket": b"{",
    "nested lists": b"[" * 200_000,
    "nested objects": b'{"a":' * 200_000,
    "infinity": b'{"peft_type": "LORA", "r": 1e999, "lora_alpha": 1}',
    "not a number": b'{"peft_type": "LORA", "r": 4, "lora_alpha": NaN}',
    "a number of 9000 digits": b'{"peft_type": "LORA", "r": ' + b"9" * 9000 + b"}",
    "no UTF-8": b'{"peft_type": "\xff\xfe"}',
    "megabytes": b'{"a": "' + b"x" * (2 << 20) + b'"}',
}


def _with_tensors(
    change: Callable[[dict[str, torch.Tensor]], object],
) -> Callable[[pathlib.Path], None]:
    def damage(folder: pathlib.Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        change(tensors)
        save_file(tensors, folder / WEIGHTS)

    return damage


def _first(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[pathlib.Path], None]:
    def damage(tensors: dict[str, torch.Tensor]) -> None:
        name = min(tensors)
        tensors[name] = change(tensors[name]).contiguous()

    return _with_tensors(damage)


def _bytes(content: Callable[[bytes], bytes]) -> Callable[[pathlib.Path], None]:
    def damage(folder: pathlib.Path) -> None:
        (folder / WEIGHTS).write_bytes(content((folder / WEIGHTS).read_bytes()))

    return damage


def _instead(name: str, make: Callable[[pathlib.Path], object]) -> Callable[[pathlib.Path], None]:
    def damage(folder: pathlib.Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return damage


FILES: dict[str, Callable[[pathlib.Path], None]] = {
    "empty weights": _bytes(lambda _: b""),
    "noise as weights": _bytes(lambda _: os.urandom(5000)),
    "a header longer than the file": _bytes(lambda old: struct.pack("<Q", 2**60) + old[8:]),
    "half of the weights": _bytes(lambda old: old[: len(old) // 2]),
    "NaN weights": _first(lambda old: old * float("nan")),
    "infinite weights": _first(lambda old: old + float("inf")),
    "integers": _first(lambda old: old.to(torch.int64)),
    "truth values": _first(lambda old: old > 0),
    "a transposed matrix": _first(lambda old: old.T),
    "no rows": _first(lambda old: old[:0]),
    "a single number": _first(lambda old: old.sum()),
    "a surplus weight": _with_tensors(lambda old: old.update(stray=torch.zeros(3))),
    "a weight of the base": _with_tensors(
        lambda old: old.update({"base_model.model.model.norm.weight": torch.full((16,), 9.0)})
    ),
    "a missing weight": _with_tensors(lambda old: old.pop(min(old))),
    "other names": _with_tensors(
        lambda old: [old.update({f"x.{name}": old.pop(name)}) for name in list(old)]
    ),
    "no weights": _with_tensors(dict.clear),
    "a pipe as config": _instead(CONFIG, os.mkfifo),
    "a folder as config": _instead(CONFIG, pathlib.Path.mkdir),
    "a folder as weights": _instead(WEIGHTS, pathlib.Path.mkdir),
    "a link to itself": _instead(CONFIG, lambda path: path.symlink_to(path.name)),
    "a device as weights": _instead(WEIGHTS, lambda path: path.symlink_to("/dev/zero")),
}
PATHS = (
    "nowhere",
    "/",
    "/dev/zero",
    "/proc/self/mem",
    "\0",
    "a\nb",
    "a" * 4000,
    "../" * 1000,
    "~",
    "http://127.0.0.1:1/adapter",
    "owner/name",
    "\N{SNOWMAN}" * 300,
)


def damaged_config(good: pathlib.Path, folder: pathlib.Path, **changes: object) -> pathlib.Path:
    """A copy of ``good`` with other fields in its config."""
    shutil.copytree(good, folder)
    fields = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(fields | changes))
    return folder


def refused_folders(good: pathlib.Path, root: pathlib.Path) -> dict[str, pathlib.Path]:
    """Copies of ``good`` that must be refused, by the kind of damage."""
    folders = {}
    for number, (what, fields) in enumerate(REFUSED_FIELDS.items()):
        folders[what] = damaged_config(good, root / f"field-{number}", **fields)
    for number, (what, text) in enumerate(TEXTS.items()):
        folders[f"config: {what}"] = shutil.copytree(good, root / f"text-{number}")
        (folders[f"config: {what}"] / CONFIG).write_bytes(text)
    for number, (what, damage) in enumerate(FILES.items()):
        folders[what] = shutil.copytree(good, root / f"file-{number}")
        damage(folders[what])
    return folders
