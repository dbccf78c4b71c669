"""Everything that `run` and `prr run` write, bit for bit, at smoke size, but for the weights of PRR.

The digests guard refactorings. A change that is meant to alter results records them again, with the
reason in the commit:

    pytest tests/flows/test_golden.py --snapshot-update
"""

import importlib.metadata
import json
import math
import pathlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from pipeline_lib.storage import manifests
from pipeline_lib.storage.files import read_json, read_json_lines

TIMED = {"seconds", "cpu_seconds", "gpu_seconds", "headline", "peak_mib"}
"""Keys of metrics.json that depend on clock and memory; the headline compares CPU seconds."""
RECORDED_WITH = {"torch": "2.13.0", "transformers": "5.19.0", "trl": "1.16.0"}

pytestmark = [
    pytest.mark.skipif(
        torch.backends.cpu.get_cpu_capability() not in {"AVX2", "AVX512"},
        reason="recorded with AVX2, which this processor does not have",
    ),
    pytest.mark.skipif(
        any(
            importlib.metadata.version(name).partition("+")[0] != version
            for name, version in RECORDED_WITH.items()
        ),
        reason=f"recorded with {RECORDED_WITH}, and other versions may round differently",
    ),
]


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """The recorded digests of a test."""
    return snapshot.use_extension(JSONSnapshotExtension)


def digests(root: pathlib.Path) -> dict[str, str]:
    """Digest of the content of each sealed folder and shard, by its manifest's path."""
    return dict(sorted(_digests(root)))


def _digests(root: pathlib.Path) -> Iterator[tuple[str, str]]:
    for path in root.rglob(f"*{manifests.MANIFEST_NAME}"):
        manifest = manifests.read_manifest(path.parent, manifest_name=path.name)
        yield path.relative_to(root).as_posix(), manifest.digest


def untimed(value: Any) -> Any:
    """A JSON value without entries that depend on the clock."""
    if not isinstance(value, dict):
        return value
    return {key: untimed(each) for key, each in value.items() if key not in TIMED}


def test_run(finished_run: pathlib.Path, golden: SnapshotAssertion):
    """One round of GRPO with control and evaluation."""
    metrics = untimed(read_json(finished_run / "reports" / "metrics.json"))
    assert golden == {"digests": digests(finished_run), "metrics": metrics}


def test_run_with_two_rounds(two_rounds: pathlib.Path, golden: SnapshotAssertion):
    """SFT; the second round starts from the policy of the first."""
    metrics = untimed(read_json(two_rounds / "reports" / "metrics.json"))
    assert golden == {"digests": digests(two_rounds), "metrics": metrics}


def test_prr_run(reasonloop, tmp_path, golden: SnapshotAssertion):
    """Data, model and evaluation of parallel latent branches.

    Processors differ in the last bits of the trained weights, so their norms and the losses are rounded.
    """
    done = reasonloop("prr", "run", "--workspace", tmp_path, "--profile", "smoke")
    assert done.returncode == 0, done.stderr
    model = tmp_path / "models" / "latent"
    found = {path: digest for path, digest in digests(tmp_path).items() if "models" not in path}
    assert golden == {
        "digests": found,
        "figures": _figures(tmp_path),
        "log": [_rounded(row, digits=3) for row in read_json_lines(model / "training_log.jsonl")],
        "norms": _rounded(_norms(model / "model.safetensors"), digits=4),
    }


def _figures(root: pathlib.Path) -> Any:
    found = next((root / "data" / "latent" / "evaluation").glob("*.json"))
    return untimed(json.loads(found.read_text("utf-8")))


def _norms(weights: pathlib.Path) -> dict[str, float]:
    """L2 norm of the weights by part of the model."""
    squares: defaultdict[str, float] = defaultdict(float)
    for name, tensor in load_file(weights).items():
        squares[name.partition(".")[0]] += float(tensor.double().square().sum())
    return {part: math.sqrt(square) for part, square in squares.items()}


def _rounded(values: dict[str, float], *, digits: int) -> dict[str, float]:
    return {name: float(f"{value:.{digits}g}") for name, value in values.items()}
