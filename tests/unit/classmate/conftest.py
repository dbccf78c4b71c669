"""Tiny models as peers."""

import pathlib

import pytest

from tests.unit.classmate.peer_models import save_chat_peer, save_peer


@pytest.fixture(scope="session")
def compact_peer(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A model of compact prompts, without a chat template."""
    return save_peer(tmp_path_factory.mktemp("compact"))


@pytest.fixture(scope="session")
def chat_peer(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A model with a chat template and another tokenizer."""
    return save_chat_peer(tmp_path_factory.mktemp("chat"))
