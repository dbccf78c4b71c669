"""Writes an evaluation: metrics, pictures of some examples, and for ARC a scored submission."""

import html
import json
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pipeline_lib.determinism import deterministic, trainer_seed
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.prr import PrrEvaluateParams
from pipeline_lib.store import manifests
from pipeline_lib.store.files import write_json, write_text
from pipeline_lib.store.folders import replaced
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.systems.prr.data.dataset_files import TEST_PUZZLES_NAME, PuzzleSet, read_set
from pipeline_lib.systems.prr.data.synthetic_folder import read_answers
from pipeline_lib.systems.prr.evaluation.arc_votes import ArcVotes
from pipeline_lib.systems.prr.evaluation.branch_answers import full_mask, grid_mask
from pipeline_lib.systems.prr.evaluation.evaluate import (
    AnswerCoverage,
    PredictedBatch,
    Progress,
    evaluate_set,
)
from pipeline_lib.systems.prr.evaluation.pictures import example_svg
from pipeline_lib.systems.prr.model.compatibility import check_compatible
from pipeline_lib.systems.prr.model.saved_model import load_model

KIND = "latent-evaluation"
METRICS_NAME = "metrics.json"
SUBMISSION_NAME = "submission.json"
REPORT_NAME = "report.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentEvaluation:
    """Arguments of one evaluation."""

    models: Sequence[pathlib.Path]
    data: pathlib.Path
    """Folder in TRM's format, with a test split."""
    output: pathlib.Path
    params: PrrEvaluateParams
    threads: int
    seed: int
    key: str
    ensemble: bool = False
    """Pool the votes of several models; otherwise exactly one is allowed."""
    progress: Progress = lambda _done, _total: None


def evaluate_latent(request: LatentEvaluation) -> Manifest:
    """Evaluate and write the folder; a finished evaluation with the same key is reused.

    Raises:
        BadInputError: several models without ``ensemble``, or a model trained for other data.
    """
    finished = manifests.current(request.output, kind=KIND, key=request.key)
    if finished is not None:
        return finished
    data = read_set(request.data, "test")
    is_arc = is_arc_folder(request.data)
    _check(request, is_arc=is_arc)
    for model in request.models:
        check_compatible(model, data, folder=request.data)
    device = compute_device()
    votes = ArcVotes(request.data, data) if is_arc else None
    seed = trainer_seed(request.seed, "latent", "evaluate")
    with replaced(request.output) as fresh, deterministic(threads=request.threads, seed=seed):
        figures = [
            _evaluate_model(model, data, request, votes=votes, device=device, fresh=fresh)
            for model in request.models
        ]
        content: dict[str, Any] = {"models": figures}
        if votes is not None:
            submitted = votes.submit(fresh / SUBMISSION_NAME, voters=request.params.voters)
            content["arc"] = {**votes.metrics(), **submitted}
        write_json(fresh / METRICS_NAME, content)
        write_text(fresh / REPORT_NAME, report_page(content, fresh))
        return manifests.seal(fresh, kind=KIND, key=request.key)


def compute_device() -> torch.device:
    """The first GPU, or the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def is_arc_folder(folder: pathlib.Path) -> bool:
    """True for ARC data, where predictions for all versions of a puzzle are pooled by voting."""
    return (folder / TEST_PUZZLES_NAME).is_file()


def _check(request: LatentEvaluation, *, is_arc: bool) -> None:
    if len(request.models) > 1 and not request.ensemble:
        raise BadInputError(
            f"{len(request.models)} models: their votes would be mixed; name one, "
            "or pass --ensemble-checkpoints"
        )
    if len(request.models) > 1 and not is_arc:
        raise BadInputError(f"{request.data}: only answers to puzzles of ARC vote; name one model")


def _evaluate_model(
    folder: pathlib.Path,
    data: PuzzleSet,
    request: LatentEvaluation,
    *,
    votes: ArcVotes | None,
    device: torch.device,
    fresh: pathlib.Path,
) -> dict[str, Any]:
    model = load_model(folder, device=device)
    answers_NAL = read_answers(request.data, data)
    known = AnswerCoverage(answers_NAL) if answers_NAL is not None else None

    def watch(part: PredictedBatch) -> None:
        draw_examples(part, data, fresh, count=request.params.pictures, is_arc=votes is not None)
        request.progress(part.stop, len(data.inputs_NL))

    figures = evaluate_set(
        model,
        data,
        request.params,
        seed=request.seed,
        listeners=[watch, *(keeper.add for keeper in (votes, known) if keeper is not None)],
        mask=grid_mask if votes is not None else full_mask,
    )
    found = {"by_right_answers": known.metrics()} if known is not None else {}
    return {"model": folder.name, **figures, **found}


def draw_examples(
    part: PredictedBatch, data: PuzzleSet, folder: pathlib.Path, *, count: int, is_arc: bool
) -> None:
    """Write pictures of the examples of ``part`` with an index below ``count``."""
    answers = part.answers
    for row, example in enumerate(range(part.start, min(part.stop, count))):
        scores = zip(answers.scores_BK[row], answers.confidences_BK[row], strict=True)
        notes = [f"score {score:.1f}, conf {sure:.2f}" for score, sure in scores]
        picture = example_svg(
            inputs_L=data.inputs_NL[example],
            labels_L=data.labels_NL[example],
            outputs_KL=answers.tokens_BKL[row],
            notes_K=notes,
            is_arc=is_arc,
        )
        write_text(folder / "pictures" / f"example-{example:03d}.svg", picture)


def report_page(content: dict[str, Any], folder: pathlib.Path) -> str:
    """A self-contained HTML page: pictures, then metrics as JSON."""
    pictures = sorted((folder / "pictures").glob("*.svg"))
    drawn = "\n".join(
        f"<figure><figcaption>{path.stem}</figcaption>{path.read_text('utf-8')}</figure>"
        for path in pictures
    )
    figures = html.escape(json.dumps(content, indent=1))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Latent branches</title>'
        "<style>body{font-family:sans-serif;margin:2em}figure{overflow-x:auto;margin:1em 0}</style>"
        "<h1>Latent branches</h1><p>A green frame: every asked position is right. The oracle looks "
        "at the label and is an upper bound.</p>\n"
        f"{drawn}\n<h2>Figures</h2><pre>{figures}</pre></html>\n"
    )
