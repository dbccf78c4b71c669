"""Small data of threads, and a model that has learned two problems by heart."""

import pathlib

import pytest
from transformers import PreTrainedTokenizerFast

from pipeline_lib.systems.apr.data_folder import generate_data
from tests.unit.systems.apr.learned_model import SMALL_DATA, save_tokenizer, shared_model


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Problems of 1..8, with traces of both kinds."""
    folder = tmp_path_factory.mktemp("threads") / "data"
    generate_data(SMALL_DATA, folder, seed=3, workers=1)
    return folder


@pytest.fixture(scope="session")
def thread_model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A model that has learned `SOLVED` and `UNSOLVED`."""
    return shared_model(tmp_path_factory)


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerFast:
    """The tokenizer of Countdown threads."""
    return save_tokenizer(tmp_path_factory.mktemp("tokenizer"))
