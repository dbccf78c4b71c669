"""A command whose engine is not installed is refused before any work."""

import subprocess
import sys

import pytest

from flows.run.admission import check_run
from pipeline_lib.engines.known.table import check_installed
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.systems.stage import Run
from tests.unit.systems.classmate.peer_models import save_peer


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment with vLLM alone, as `make serve-env` makes."""
    folder = tmp_path_factory.mktemp("serve") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    (packages / "vllm.py").touch()
    return folder


@pytest.fixture(scope="module")
def compact_model(tmp_path_factory):
    return save_peer(tmp_path_factory.mktemp("model") / "model")


def test_the_environment_must_have_the_engine(environment):
    """Found without an import of the package; the remedy installs the engine that is missing."""
    check_installed(ServeParams(engine="vllm", environment=str(environment)))
    check_installed(ServeParams(engine="embedded", environment="none"))
    for engine, folder in (("sglang", environment), ("vllm", environment / "no")):
        with pytest.raises(BadInputError, match=f"python with {engine}; ") as raised:
            check_installed(ServeParams(engine=engine, environment=str(folder)))
        assert f"`make serve-env ENGINE={engine}` installs it" in str(raised.value)


@pytest.mark.parametrize(
    "command",
    [
        "run --runner thread --workspace work",
        "stage sample --runner thread --workspace work",
        "stage train --runner thread --workspace work",
        "pacore serve . --workspace work",
        "pacore solve . question --workspace work",
        "apr solve . question --workspace work",
        "serve . --workspace work",
        "sample . --output paths.jsonl --set prepare.train_problems=1 --set prepare.test_problems=1",
        "pacore evaluate . --output work --set prepare.train_problems=1 --problems 1",
        (
            "classmate train . --output work --set classmate.prepare.train_problems=1 "
            "--set classmate.prepare.bootstrap_problems=1 --set classmate.prepare.test_problems=1 "
            "--set classmate.classmate_model_name_or_path_list=[{name: a, model: PEER, serve: "
            "{engine: sglang, environment: ENVIRONMENT}}]"
        ),
    ],
)
def test_commands_that_start_an_engine(
    refused, command, environment, compact_model, tmp_path, monkeypatch
):
    """Exit code 2 and one line; nothing is written."""
    monkeypatch.chdir(tmp_path)
    head, _, peers = command.partition(" --set classmate.classmate_model")
    words = head.split()
    if peers:
        peers = f"classmate.classmate_model{peers}".replace("ENVIRONMENT", str(environment))
        words += ["--set", peers.replace("PEER", str(compact_model))]
    words = [str(compact_model) if word == "." else word for word in words]
    words += ["--set", "serve.engine=sglang", "--set", f"serve.environment={environment}"]
    assert f"there is no {environment}/bin/python with sglang" in refused(*words)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".log"]


def test_a_run_without_the_environment_makes_no_folder(refused, tmp_path, monkeypatch):
    """Exit code 2 and one line before any stage; neither the workspace nor a log of an engine is made."""
    monkeypatch.chdir(tmp_path)
    line = refused("run", "--engine", "sglang", "--workspace", "work")
    assert line == (
        f"reasonloop: serve.environment=.venv-sglang: there is no {tmp_path}/.venv-sglang/bin/python "
        "with sglang; `make serve-env ENGINE=sglang` installs it in .venv-sglang, or set a folder "
        "that has it"
    )
    assert not list(tmp_path.iterdir())


def test_a_stage_that_draws_nothing_needs_no_engine(environment, tmp_path):
    """Its params may name one that other machines have."""
    serve = {"engine": "sglang", "environment": str(environment)}
    params = Params.model_validate({"execution": {"runner": "thread"}, "serve": serve})
    run = Run(root=tmp_path, params=params)
    with pytest.raises(BadInputError, match="python with sglang"):
        check_run(LOOP, run)
    check_run(LOOP, run, draws=False)
