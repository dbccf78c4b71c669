"""Writes the folder of an evaluation: its study, attempts and page, pictures of some examples, and for ARC a submission."""

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from pipeline_lib.determinism import deterministic, trainer_seed
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.prr import PrrEvaluateParams
from pipeline_lib.store import manifests
from pipeline_lib.store.files import write_text
from pipeline_lib.store.folders import replaced
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.study.attempts import ATTEMPTS_KIND, write_attempts
from pipeline_lib.study.pages.page import REPORT_NAME, write_page
from pipeline_lib.study.study import write_study
from pipeline_lib.systems.prr.data.dataset_files import TEST_PUZZLES_NAME, PuzzleSet, read_set
from pipeline_lib.systems.prr.data.synthetic import read_answers
from pipeline_lib.systems.prr.evaluation.arc_votes import ArcVotes
from pipeline_lib.systems.prr.evaluation.branch_answers import full_mask, grid_mask
from pipeline_lib.systems.prr.evaluation.evaluate import (
    PredictedBatch,
    Progress,
    evaluate_set,
)
from pipeline_lib.systems.prr.evaluation.pictures import example_svg
from pipeline_lib.systems.prr.model.compatibility import check_compatible
from pipeline_lib.systems.prr.model.saved_model import load_model, read_config
from pipeline_lib.systems.prr.study import (
    PICTURES_NAME,
    Findings,
    attempts,
    example_name,
    make_prr_study,
    prr_page,
    puzzles,
)

KIND = "latent-evaluation"
SUBMISSION_NAME = "submission.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentEvaluation:
    """Arguments of one evaluation."""

    models: Sequence[pathlib.Path]
    data: pathlib.Path
    """Folder in TRM's format, with a test split."""
    output: pathlib.Path
    params: PrrEvaluateParams
    intervals: EvaluateParams
    threads: int
    seed: int
    key: str
    provenance: Mapping[str, str | None]
    control: pathlib.Path | None = None
    """A model of one branch, which does not vote."""
    ensemble: bool = False
    """Pool the votes of several models; otherwise exactly one is allowed."""
    progress: Progress = lambda _done, _total: None


def evaluate_latent(request: LatentEvaluation) -> Manifest:
    """Evaluate and write the folder; a finished evaluation with the same key is reused.

    Raises:
        BadInputError: several models without ``ensemble``, a control of several branches, or a model trained for
            other data.
    """
    finished = manifests.current(request.output, kind=KIND, key=request.key)
    if finished is not None:
        return finished
    data = read_set(request.data, "test")
    is_arc = is_arc_folder(request.data)
    _check(request, is_arc=is_arc)
    for folder in _folders(request).values():
        check_compatible(folder, data, folder=request.data)
    seed = trainer_seed(request.seed, "latent", "evaluate")
    with replaced(request.output) as fresh, deterministic(threads=request.threads, seed=seed):
        found = _find(request, data, fresh, is_arc=is_arc)
        study, series = make_prr_study(
            found, evaluate=request.intervals, seed=request.seed, provenance=request.provenance
        )
        write_study(fresh, study, series, puzzles(data))
        write_attempts(fresh / ATTEMPTS_KIND, attempts(found, series))
        write_page(fresh / REPORT_NAME, study, prr_page(study, fresh, is_arc=is_arc))
        return manifests.seal(fresh, kind=KIND, key=request.key)


def _folders(request: LatentEvaluation) -> dict[str, pathlib.Path]:
    """The models by a name of their own, the control last."""
    found: dict[str, pathlib.Path] = {}
    controls = [] if request.control is None else [request.control]
    for place, folder in enumerate([*request.models, *controls]):
        found[f"{folder.name} {place}" if folder.name in found else folder.name] = folder
    return found


def _find(
    request: LatentEvaluation, data: PuzzleSet, fresh: pathlib.Path, *, is_arc: bool
) -> Findings:
    """Evaluate all models; on ARC all but the control vote."""
    votes = ArcVotes(request.data, data) if is_arc else None
    folders, num_models = _folders(request), len(request.models)
    answers_NAL = read_answers(request.data, data)
    sets = {}
    for place, (name, folder) in enumerate(folders.items()):
        is_control = place >= num_models
        sets[name] = evaluate_set(
            load_model(folder, device=compute_device()),
            data,
            request.params,
            seed=request.seed,
            answers_NAL=answers_NAL,
            listeners=[
                partial(_report, request.progress, place, len(folders), len(data.inputs_NL)),
                *([] if is_control else [partial(_draw, request, data, fresh)]),
                *([] if is_control or votes is None else [votes.add]),
            ],
            mask=grid_mask if is_arc else full_mask,
        )
    names = [*sets]
    return Findings(
        models={name: sets[name] for name in names[:num_models]},
        control={name: sets[name] for name in names[num_models:]},
        arc=None
        if votes is None
        else {
            **votes.metrics(),
            **votes.submit(fresh / SUBMISSION_NAME, voters=request.params.voters),
        },
    )


def _report(progress: Progress, place: int, models: int, size: int, part: PredictedBatch) -> None:
    progress(place * size + part.stop, models * size)


def _draw(
    request: LatentEvaluation, data: PuzzleSet, fresh: pathlib.Path, part: PredictedBatch
) -> None:
    is_arc = is_arc_folder(request.data)
    draw_examples(part, data, fresh, count=request.params.pictures, is_arc=is_arc)


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
    if request.control is not None:
        branches = read_config(request.control).model.num_branches
        if branches > 1:
            raise BadInputError(f"{request.control}: {branches} branches; the control has one")


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
        write_text(folder / PICTURES_NAME / f"{example_name(example)}.svg", picture)
