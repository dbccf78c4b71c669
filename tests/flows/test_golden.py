"""What `run`, `prr run` and `verify` write, bit for bit, at smoke size, but for the weights of PRR.

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

from pipeline_lib.params.paths import CodeLimits, VerifyParams
from pipeline_lib.storage import manifests
from pipeline_lib.storage.files import digest_json, read_json, read_json_lines
from pipeline_lib.verification.lines.files import verify_lines

LEFT_OUT = {"seconds", "cpu_seconds", "gpu_seconds", "headline", "peak_mib"}
"""Keys that depend on clock and memory; the headline compares CPU seconds."""
ANSWERS = pathlib.Path(__file__).parents[1] / "golden" / "answers.jsonl"
SHOWN_CHARACTERS = 80
"""Of an extracted answer."""
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
        digest = manifest.digest
        if all(name.endswith(".json") for name in manifest.files):
            # Estimates: numpy's kernels differ in the last bits between processors.
            digest = digest_json({name: estimates(path.parent / name) for name in manifest.files})
        yield path.relative_to(root).as_posix(), digest


def estimates(path: pathlib.Path) -> Any:
    """The value of a JSON file, its numbers rounded to 10 digits."""
    return json.loads(path.read_text("utf-8"), parse_float=lambda text: f"{float(text):.10g}")


def untimed(value: Any) -> Any:
    """A JSON value without LEFT_OUT, its numbers rounded to 10 digits."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, list):
        return [untimed(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: untimed(each) for key, each in value.items() if key not in LEFT_OUT}


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
        "log": [rounded(row, digits=3) for row in read_json_lines(model / "training_log.jsonl")],
        "norms": rounded(_norms(model / "model.safetensors"), digits=4),
    }


def test_verify(tmp_path: pathlib.Path, golden: SnapshotAssertion):
    """The verdicts on right, wrong, malformed and hostile answers of each kind.

    A program that sleeps is never scored. One that loops is, unless other load keeps it from using its CPU
    seconds, so its scores are not recorded.
    """
    output = tmp_path / "verdicts.jsonl"
    params = VerifyParams(code=CodeLimits(timeout_s=1))
    verify_lines(ANSWERS, output, params, workers=2)
    verdicts = {row.pop("id"): row for row in read_json_lines(output)}
    for name, row in verdicts.items():
        del row["seconds"]
        row["extracted"] = row["extracted"] and row["extracted"][:SHOWN_CHARACTERS]
        if name == "code-loop":
            del row["strict"], row["lenient"]
    assert golden == verdicts


def _figures(root: pathlib.Path) -> Any:
    found = next((root / "data" / "latent" / "evaluation").glob("*.json"))
    return untimed(json.loads(found.read_text("utf-8")))


def _norms(weights: pathlib.Path) -> dict[str, float]:
    """L2 norm of the weights by part of the model."""
    squares: defaultdict[str, float] = defaultdict(float)
    for name, tensor in load_file(weights).items():
        squares[name.removeprefix("model.").partition(".")[0]] += float(
            tensor.double().square().sum()
        )
    return {part: math.sqrt(square) for part, square in squares.items()}


def rounded(value: Any, *, digits: int) -> Any:
    """A JSON value with its fractions rounded to significant digits."""
    if isinstance(value, dict):
        return {key: rounded(each, digits=digits) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each, digits=digits) for each in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
