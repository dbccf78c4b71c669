"""What `verify` and the runs of all five systems write, at smoke size.

Of `run` everything is recorded bit for bit, weights included; of the other systems the decoded content of every
table, the metrics without seconds, and norms and losses of the trainings, rounded.

The digests guard refactorings. A change that is meant to alter results records them again, with the
reason in the commit:

    pytest tests/flows/test_golden.py --snapshot-update
"""

import importlib.metadata
import json
import math
import pathlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from pipeline_lib.params.paths import CodeLimits, VerifyParams
from pipeline_lib.store import manifests
from pipeline_lib.store.files import digest_json, read_json, read_json_lines
from pipeline_lib.verify.lines import verify_lines

LEFT_OUT = {
    "seconds",
    "cpu_seconds",
    "gpu_seconds",
    "headline",
    "peak_mib",
    "settings",
    "provenance",
    "claims",
}
"""Keys that depend on clock and memory (the headline compares CPU seconds) or repeat the params."""
KEYED = re.compile(r"/[0-9a-f]{16}/")
"""A folder that is named by the key of its work, which digests the code."""
READERS: dict[str, Callable[[pathlib.Path], Any]] = {
    ".json": read_json,
    ".jsonl": lambda path: list(read_json_lines(path)),
    ".journal": lambda path: list(read_json_lines(path))[1:],  # the first line is its key
    ".parquet": lambda path: pq.read_table(path).to_pylist(),
}
ANSWERS = pathlib.Path(__file__).parents[1] / "golden" / "answers.jsonl"
SHOWN_CHARACTERS = 80
"""Of an extracted answer."""
DIGITS = 6
"""Of fractions in tables."""
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


def recorded(root: pathlib.Path, metrics: str) -> dict[str, Any]:
    """Digests of the tables of a run, its trainings and its metrics, fractions rounded."""
    return {
        "tables": {name: digest_json(one) for name, one in _tables(root) if name != metrics},
        "trainings": dict(sorted(_trainings(root))),
        "metrics": _content(root / metrics),
    }


def _tables(root: pathlib.Path) -> Iterator[tuple[str, Any]]:
    for path in sorted([*(root / "data").rglob("*"), *(root / "reports").rglob("*")]):
        if path.suffix in READERS and not path.name.endswith(manifests.MANIFEST_NAME):
            yield KEYED.sub("/KEY/", path.relative_to(root).as_posix()), _content(path)


def _content(path: pathlib.Path) -> Any:
    return rounded(untimed(READERS[path.suffix](path)), digits=DIGITS)


def _trainings(root: pathlib.Path) -> Iterator[tuple[str, Any]]:
    for weights in (root / "models").rglob("model.safetensors"):
        name = weights.parent.relative_to(root).as_posix()
        log = weights.with_name("training_log.jsonl")
        rows = list(read_json_lines(log)) if log.exists() else []
        last = {row["phase"]: rounded(untimed(row), digits=3) for row in rows}
        yield (
            name,
            {
                "last steps": last,
                "norms": rounded(_norms(weights), digits=4),
                "projections": _projections(weights),
            },
        )


def test_run(finished_run: pathlib.Path, golden: SnapshotAssertion):
    """One round of GRPO with control and evaluation."""
    metrics = untimed(read_json(finished_run / "reports" / "metrics.json"))
    assert golden == {"digests": digests(finished_run), "metrics": metrics}


def test_run_with_two_rounds(two_rounds: pathlib.Path, golden: SnapshotAssertion):
    """SFT; the second round starts from the policy of the first. On Ray, as it was recorded on threads."""
    metrics = untimed(read_json(two_rounds / "reports" / "metrics.json"))
    assert golden == {"digests": digests(two_rounds), "metrics": metrics}


def test_prr_run(reasonloop, tmp_path, golden: SnapshotAssertion):
    """Puzzles, the model and its control, figures.

    Processors differ in the last bits of the trained weights, so norms and losses are rounded, and attempts, which
    hold logits, are left out.
    """
    done = reasonloop("prr", "run", "--workspace", tmp_path, "--profile", "smoke")
    assert done.returncode == 0, done.stderr
    models = [tmp_path / "models" / name for name in ("prr", "prr-control")]
    assert golden == {
        "puzzles": manifests.read_manifest(tmp_path / "data" / "prr" / "puzzles").digest,
        "metrics": untimed(read_json(tmp_path / "reports" / "prr" / "metrics.json")),
        "last steps": {
            model.name: rounded([*read_json_lines(model / "training_log.jsonl")][-1], digits=3)
            for model in models
        },
        "norms": {
            model.name: rounded(_norms(model / "model.safetensors"), digits=4) for model in models
        },
    }


def test_apr_run(apr_run: pathlib.Path, golden: SnapshotAssertion):
    """Traces, rollouts of all models and conditions, trainings, figures."""
    assert golden == recorded(apr_run, "reports/apr/metrics.json")


def test_pacore_run(pacore_run: pathlib.Path, golden: SnapshotAssertion):
    """Messages of the policy, trials of each strategy, trainings, figures."""
    assert golden == recorded(pacore_run, "reports/pacore/metrics.json")


def test_classmate_run(classmate_run: pathlib.Path, golden: SnapshotAssertion):
    """Problems, draws with the scores of peers, evaluated paths, trainings, figures."""
    assert golden == recorded(classmate_run, "reports/classmate/metrics.json")


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
            del row["strict"], row["lenient"], row["detail"]
    assert golden == verdicts


def _norms(weights: pathlib.Path) -> dict[str, float]:
    """L2 norm of the weights by part of the model."""
    squares: defaultdict[str, float] = defaultdict(float)
    for name, tensor in load_file(weights).items():
        squares[name.removeprefix("model.").partition(".")[0]] += float(
            tensor.double().square().sum()
        )
    return {part: math.sqrt(square) for part, square in squares.items()}


def _projections(weights: pathlib.Path) -> list[float]:
    """Four sums of the weights with random signs: a few small steps change one, last bits do not."""
    generator = np.random.default_rng(0)
    total = np.zeros(4)
    for _, tensor in sorted(load_file(weights).items()):
        signs = generator.choice([-1.0, 1.0], size=(4, tensor.numel()))
        total += signs @ tensor.double().flatten().numpy()
    return [round(each, 2) for each in total.tolist()]


def rounded(value: Any, *, digits: int) -> Any:
    """A JSON value with its fractions rounded to significant digits."""
    if isinstance(value, dict):
        return {key: rounded(each, digits=digits) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each, digits=digits) for each in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
