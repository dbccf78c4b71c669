"""Requests and options for SGLang, checked by the names and types of its wheel."""

import os
import pathlib
import subprocess

import pytest
from pydantic import ValidationError

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.known.engine import Launch, ServedModel
from pipeline_lib.engines.known.sglang import SGLANG
from pipeline_lib.params.serve import ServeParams
from tests.unit.engines.sglang import contract
from tests.unit.engines.sglang.environment import make_environment

SOURCE = os.environ.get("REASONLOOP_SGLANG")
"""A wheel of SGLang, or a folder with it, as ``site-packages`` of `make serve-env ENGINE=sglang`."""
DECODING = Decoding(temperature=0.7, top_p=0.95, max_new_tokens=9, stop=("\n\n",))


@pytest.mark.skipif(SOURCE is None, reason="REASONLOOP_SGLANG names no wheel of SGLang")
def test_the_record_is_what_the_wheel_says():
    """Options, fields, routes and variables are derived from SGLang's own code, and written as recorded."""
    found = contract.read_wheel(pathlib.Path(str(SOURCE)))
    assert contract.as_text(found) == contract.RECORD.read_text("utf-8")


def test_the_wheel_is_the_one_that_is_installed():
    """The record has the version of the pins."""
    pins = pathlib.Path("requirements/serve-sglang-cuda.txt").read_text("utf-8").splitlines()
    assert f"sglang=={contract.record()['version']}" in pins


@pytest.fixture(scope="module")
def launch(tmp_path_factory) -> Launch:
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text('{"dtype": "float32", "serving_dtype": "bfloat16"}')
    environment = make_environment(tmp_path_factory.mktemp("sglang") / "environment")
    assert SGLANG.launch is not None
    return SGLANG.launch(
        ServeParams(engine="sglang", environment=str(environment)),
        ServedModel(model=str(folder), name="policy@1", port=8302, lora_rank=12),
    )


def test_every_option_of_the_command_exists(launch):
    """The options, with a choice where SGLang has choices; an option that it lacks is refused."""
    options = [*launch.command[3:]]
    parsed = contract.parser().parse_args(options)
    assert (parsed.served_model_name, parsed.port, parsed.dtype) == ("policy@1", 8302, "bfloat16")
    assert (parsed.max_lora_rank, parsed.lora_target_modules) == (12, ["all"])
    assert parsed.enable_deterministic_inference
    for wrong in (["--no-such"], ["--sampling-defaults", "vllm"]):
        with pytest.raises(SystemExit):
            contract.parser().parse_args([*options, *wrong])


PARSE = "import sys; from sglang.srt.server_args import prepare_server_args as p; print(p(sys.argv[1:]))"
PYTHON = pathlib.Path(SOURCE or os.devnull) / "../../../bin/python"


@pytest.mark.slow
@pytest.mark.skipif(not PYTHON.exists(), reason="REASONLOOP_SGLANG is no site-packages")
def test_the_parser_of_sglang_takes_the_command(launch):
    """The parser of an installed SGLang reads the options."""
    command = [str(PYTHON), "-c", PARSE, *launch.command[3:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    for setting in ("enable_deterministic_inference=True", "max_lora_rank=12", "dtype='bfloat16'"):
        assert setting in done.stdout


def test_every_variable_and_route_exists(launch):
    """The variable that SGLang alone reads, and the routes of health and adapters."""
    own = [name for name in launch.environment if name.startswith("SGLANG")]
    assert own == contract.record()["variables"]
    assert SGLANG.adapter_routes is not None
    routes = {SGLANG.health_route, SGLANG.adapter_routes.load, SGLANG.adapter_routes.unload}
    assert routes < {*contract.record()["routes"]} == {*contract.ROUTES_USED}


@pytest.mark.parametrize("kind", ["CompletionRequest", "ChatCompletionRequest"])
def test_every_field_of_a_request_exists(kind):
    """All fields of both routes, whole and streamed, have the types of SGLang's classes; another field is refused."""
    assert SGLANG.dialect is not None
    if kind == "CompletionRequest":
        body = SGLANG.dialect.completion([1, 2], [2**63 - 1], DECODING)
    else:
        messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
        body = SGLANG.dialect.chat(messages, [0], DECODING)
    body = {"model": "base:policy@1", **body.pop("extra_body"), **body}
    contract.checked(kind, body)
    contract.checked(kind, {**body, "stream": True, "stream_options": {"include_usage": True}})
    for wrong in ({"add_special_tokens": False}, {"top_k": "all"}):
        with pytest.raises(ValidationError, match=next(iter(wrong))):
            contract.checked(kind, {**body, **wrong})
