"""Training, evaluation and pictures by folders, with stage keys."""

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.prr import PrrParams
from pipeline_lib.params.whole import Params
from pipeline_lib.publish.reporting.revision import provenance
from pipeline_lib.store import manifests
from pipeline_lib.store.files import digest_file, digest_json
from pipeline_lib.store.folders import check_output_folder, replaced
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import MANIFEST_NAME, Manifest
from pipeline_lib.study.pages.page import REPORT_NAME, write_page
from pipeline_lib.study.study import make_study
from pipeline_lib.systems.prr.data.dataset_files import read_set
from pipeline_lib.systems.prr.evaluation.branch_answers import full_mask, grid_mask
from pipeline_lib.systems.prr.evaluation.evaluate import Progress as ExamplesProgress
from pipeline_lib.systems.prr.evaluation.evaluate import predict_batches
from pipeline_lib.systems.prr.evaluation_folder import KIND as EVALUATION
from pipeline_lib.systems.prr.evaluation_folder import (
    LatentEvaluation,
    compute_device,
    draw_examples,
    evaluate_latent,
    is_arc_folder,
)
from pipeline_lib.systems.prr.model.compatibility import check_compatible
from pipeline_lib.systems.prr.model.saved_model import KIND as MODEL
from pipeline_lib.systems.prr.model.saved_model import load_model
from pipeline_lib.systems.prr.study import TRANSDUCTIVE, prr_page
from pipeline_lib.systems.prr.training.train import LatentTraining, Progress, train_latent

PICTURES = "latent-pictures"


def data_digest(folder: pathlib.Path) -> str:
    """Digest of a data folder, with or without a manifest.

    Raises:
        BadInputError: there is no such folder, or its files differ from its manifest.
    """
    if not folder.is_dir():
        raise BadInputError(
            f"{folder}: no such folder; build one with `reasonloop prr build-synthetic` or its siblings"
        )
    if (folder / MANIFEST_NAME).is_file():
        manifest = manifests.read_manifest(folder)
        manifests.check(folder, manifest)
        return manifest.digest
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return digest_json({str(path.relative_to(folder)): digest_file(path) for path in files})


def train_on(
    data: pathlib.Path,
    output: pathlib.Path,
    params: PrrParams,
    *,
    seed: int,
    max_seconds: float | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Train on the training split of ``data``; see :func:`train_latent`.

    The number of processes is no part of the key: a training may resume with another one, and torchrun gives it
    without the params.
    """
    check_output_folder(output, kind=MODEL)
    key = stage_key(
        LatentTraining.__module__,  # evaluation code does not affect a model
        params={
            **params.model_dump(mode="json", include={"model", "loss"}),
            "train": params.train.model_dump(mode="json", exclude={"processes"}),
            "seed": seed,
        },
        inputs={"data": data_digest(data)},
    )
    return train_latent(
        LatentTraining(
            data=read_set(data, "train"),
            output=output,
            model=params.model,
            loss=params.loss,
            train=params.train,
            seed=seed,
            key=key,
            max_seconds=max_seconds,
            progress=progress,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPaths:
    """Inputs and output of an evaluation."""

    data: pathlib.Path
    models: Sequence[pathlib.Path]
    output: pathlib.Path
    control: pathlib.Path | None = None
    """A model of one branch that the first is compared with."""


def evaluate_on(
    places: EvaluationPaths,
    params: Params,
    *,
    ensemble: bool = False,
    progress: ExamplesProgress = lambda _done, _total: None,
) -> Manifest:
    """Evaluate on the test split of the data; see :func:`evaluate_latent`."""
    check_output_folder(places.output, kind=EVALUATION)
    own, intervals = params.prr, params.evaluate
    models = {f"model {index}": model for index, model in enumerate(places.models)}
    if places.control is not None:
        models["control"] = places.control
    key = stage_key(
        LatentEvaluation.__module__,
        params={
            **own.evaluate.model_dump(),
            **intervals.model_dump(include={"resamples", "confidence_level"}),
            "threads": own.train.threads,
            "seed": params.seed,
        },
        inputs={
            "data": data_digest(places.data),
            **{name: _model_digest(model) for name, model in models.items()},
        },
    )
    return evaluate_latent(
        LatentEvaluation(
            models=places.models,
            control=places.control,
            data=places.data,
            output=places.output,
            params=own.evaluate,
            intervals=intervals,
            threads=own.train.threads,
            seed=params.seed,
            key=key,
            provenance=provenance(params),
            ensemble=ensemble,
            progress=progress,
        )
    )


def _model_digest(folder: pathlib.Path) -> str:
    if not (folder / MANIFEST_NAME).is_file():
        raise BadInputError(f"{folder}: no latent model; train one with `reasonloop prr train`")
    return manifests.read_manifest(folder).digest


def show_on(
    data: pathlib.Path, model: pathlib.Path, output: pathlib.Path, params: Params, *, count: int
) -> int:
    """Draw the predictions for the first ``count`` test examples; returns the number drawn.

    They equal the predictions of :func:`evaluate_on`.

    Raises:
        BadInputError: no model, no example, a model trained for other data, or ``output`` holds
            other files.
    """
    check_output_folder(output, kind=PICTURES)
    test = read_set(data, "test")
    check_compatible(model, test, folder=data)
    is_arc = is_arc_folder(data)
    num_drawn = min(count, len(test.inputs_NL))
    if not num_drawn:
        raise BadInputError(f"{data}: the test split has no example; build it again")
    batch_size = min(num_drawn, params.prr.evaluate.batch_size)
    few = params.prr.evaluate.model_copy(update={"batch_size": batch_size})
    trained, seed = load_model(model, device=compute_device()), params.seed
    parts = predict_batches(trained, test, few, seed=seed, mask=grid_mask if is_arc else full_mask)
    with replaced(output) as fresh:
        for part in parts:
            draw_examples(part, test, fresh, count=num_drawn, is_arc=is_arc)
            if part.stop >= num_drawn:
                break
        shown = make_study(
            "prr", [], [], evaluate=params.evaluate, seed=seed, provenance=provenance(params)
        ).with_claims([f"Answers of {model.name}", *([TRANSDUCTIVE] if is_arc else [])])
        write_page(fresh / REPORT_NAME, shown, prr_page(shown, fresh, is_arc=False))
        manifests.seal(fresh, kind=PICTURES, key=model.name)
    return num_drawn
