"""A model's identity depends on all files that affect its output, and on nothing else."""

import os
import shutil

import pytest

from pipeline_lib.engines.identity import model_identity


@pytest.fixture
def copy(tiny_model, tmp_path):
    return shutil.copytree(tiny_model, tmp_path / "copy")


def test_a_copy_is_the_same_model(tiny_model, copy):
    """Neither the folder's name nor its log or manifest is part of the model."""
    (copy / "training_log.jsonl").write_text("{}\n", encoding="utf-8")
    (copy / "manifest.json").write_text("{}\n", encoding="utf-8")
    assert model_identity(str(copy)) == model_identity(str(tiny_model))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_changed_files_are_another_model(copy, name):
    """One changed byte at the same size changes the identity."""
    before = model_identity(str(copy))
    content = bytearray((copy / name).read_bytes())
    content[-1] ^= 1
    (copy / name).write_bytes(content)
    os.utime(copy / name, ns=(1, 1))
    assert model_identity(str(copy)) != before


@pytest.mark.parametrize("name", ["chat_template.jinja", "additional_chat_templates/default.jinja"])
def test_a_new_chat_template_is_another_model(copy, name):
    """The template affects every prompt; transformers reads the one in the folder of templates, too."""
    before = model_identity(str(copy))
    (copy / name).parent.mkdir(exist_ok=True)
    assert model_identity(str(copy)) == before
    (copy / name).write_text("{{ messages }}", encoding="utf-8")
    assert model_identity(str(copy)) != before


def test_a_hub_id_is_its_own_identity():
    """No file is read."""
    assert model_identity("owner/name") == "owner/name"
