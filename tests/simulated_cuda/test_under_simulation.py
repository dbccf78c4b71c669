"""The contract with a GPU, on a simulated CUDA device: each file is run by pytest in a process of its own."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY
from tests.simulated_cuda import device

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
HERE = pathlib.Path(__file__).parent.relative_to(REPOSITORY)
CONTRACTS = [
    HERE / "contract_device.py",
    HERE / "contract_draws.py",
    HERE / "contract_training.py",
    HERE / "contract_evaluation.py",
    HERE / "contract_precision.py",
    pathlib.Path("tests/unit/systems/prr/test_on_gpu.py"),
]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The C++ part of the device."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler to build the simulated device with")
    return device.build(tmp_path_factory.mktemp("simulated-cuda"), compiler)


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda path: path.stem)
def test_contract(library, contract):
    """All tests of the file pass on the device."""
    command = [
        *(sys.executable, "-m", "pytest", "-p", "tests.simulated_cuda.plugin", "-n", "0", "-q"),
        *("-m", "gpu or not gpu", str(contract)),
    ]
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env=os.environ | {"SIMULATED_CUDA": str(library), "HF_DEACTIVATE_ASYNC_LOAD": "1"},
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert re.search(r"\d+ passed", done.stdout), done.stdout
