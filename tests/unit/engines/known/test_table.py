"""The table of engines is the only list of their names."""

import pathlib
from typing import get_args

import pytest

from flows.cli.options import Engine
from pipeline_lib.engines import known
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.known.engine import OPENAI
from pipeline_lib.engines.known.table import EMBEDDED, ENGINES, dialect_of, is_in_process
from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.serve import ServeParams


def test_every_engine_module_is_in_the_table():
    """An engine that is started is a module of its name; ``engine`` and ``table`` are what they share."""
    folder = pathlib.Path(known.__path__[0])
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "engine", "table"}
    assert modules | {"embedded", "url"} == set(ENGINES)


def test_the_command_offers_every_engine():
    """``--engine`` takes the names of the table, in its order."""
    assert get_args(Engine) == tuple(ENGINES)


def test_the_default_engine_exists():
    """Params without a serve section draw in process."""
    assert ENGINES[ServeParams().engine].in_process


def test_the_dialect_of_an_external_server_is_that_of_its_owner():
    """The owner in the list of models decides; any other owner gets OpenAI's fields only."""
    assert dialect_of("url", owned_by="vllm") == ENGINES["vllm"].dialect
    assert dialect_of("url", owned_by="someone") == dialect_of("url", owned_by="url") == OPENAI
    assert dialect_of("sglang", owned_by="vllm") == ENGINES["sglang"].dialect


def test_an_unlisted_engine_is_not_in_process():
    """Telemetry may name an engine that has left the table."""
    assert is_in_process("embedded")
    assert not is_in_process("gone")


def test_paths_of_the_embedded_engine_carry_its_name():
    """The in-process model does not import the table, whose code would then re-key every training."""
    assert EmbeddedEngine.engine == EMBEDDED.name


def test_an_unknown_engine_is_not_started(tmp_path):
    """Also for params that no command has checked."""
    with (
        pytest.raises(BadInputError, match=r"serve\.engine: Input should be .* \(got 'vlm'\)"),
        serving_engine(ServeParams(engine="vlm"), model="owner/name", log_folder=tmp_path),
    ):
        pass
