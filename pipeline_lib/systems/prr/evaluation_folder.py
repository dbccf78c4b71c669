"""Writes the folder of an evaluation: its study, attempts and page, pictures of some examples, and for ARC a submission."""

import pathlib
from collections.abc import Iterator, Sequence

import torch

from pipeline_lib.determinism import deterministic, trainer_seed
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.store import manifests
from pipeline_lib.store.files import read_json_lines, write_text
from pipeline_lib.store.folders import check_output_folder, replaced
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.study.attempts import ATTEMPTS_KIND, write_attempts
from pipeline_lib.study.pages.page import REPORT_NAME, write_page
from pipeline_lib.study.provenance import provenance
from pipeline_lib.study.study import make_study, write_study
from pipeline_lib.systems.prr.data.dataset_files import (
    TEST_PUZZLES_NAME,
    PuzzleSet,
    data_digest,
    read_set,
)
from pipeline_lib.systems.prr.data.synthetic import read_answers
from pipeline_lib.systems.prr.evaluation.answers import full_mask, grid_mask
from pipeline_lib.systems.prr.evaluation.arc_votes import ArcVotes
from pipeline_lib.systems.prr.evaluation.evaluate import (
    EvaluatedSet,
    PredictedBatch,
    Progress,
    evaluate_set,
    predict_batches,
)
from pipeline_lib.systems.prr.evaluation.pictures import example_svg
from pipeline_lib.systems.prr.model.saved_model import (
    LOG_NAME,
    check_compatible,
    load_model,
    read_config,
)
from pipeline_lib.systems.prr.study import (
    PICTURES_NAME,
    TRANSDUCTIVE,
    Findings,
    attempts,
    example_name,
    make_prr_study,
    prr_page,
    puzzles,
)

KIND = "latent-evaluation"
PICTURES = "latent-pictures"
SUBMISSION_NAME = "submission.json"


def evaluate_on(  # noqa: PLR0913 - what an evaluation depends on
    data: pathlib.Path,
    models: Sequence[pathlib.Path],
    output: pathlib.Path,
    params: Params,
    *,
    control: pathlib.Path | None = None,
    ensemble: bool = False,
    progress: Progress = lambda _done, _total: None,
) -> Manifest:
    """Evaluate on the test split and write the folder; a finished evaluation with the same key is reused.

    ``data`` is in TRM's format. On ARC all ``models`` vote, several of them only with ``ensemble``. ``control`` is a
    model of one branch that the first is compared with; it does not vote.

    Raises:
        BadInputError: several models without ``ensemble``, a control of several branches, a model trained for other
            data, or ``output`` holds other files.
    """
    check_output_folder(output, kind=KIND)
    own, intervals = params.prr, params.evaluate
    roles = {f"model {index}": model for index, model in enumerate(models)}
    if control is not None:
        roles["control"] = control
    for folder in roles.values():
        read_config(folder)  # first, since it says how a missing model is made
    key = stage_key(
        __name__,
        params={
            **own.evaluate.model_dump(),
            **intervals.model_dump(include={"resamples", "confidence_level"}),
            "threads": own.train.threads,
            "seed": params.seed,
        },
        inputs={
            "data": data_digest(data),
            **{name: manifests.read_manifest(model).digest for name, model in roles.items()},
        },
    )
    finished = manifests.current(output, kind=KIND, key=key)
    if finished is not None:
        return finished
    test = read_set(data, "test")
    _check(data, models, control, ensemble=ensemble)
    for folder in roles.values():
        check_compatible(folder, test, folder=data)
    seed = trainer_seed(params.seed, "latent", "evaluate")
    with replaced(output) as fresh, deterministic(threads=own.train.threads, seed=seed):
        found = _evaluate(
            data, test, [*roles.values()], len(models), fresh, params=params, progress=progress
        )
        study, series = make_prr_study(
            found, evaluate=intervals, seed=params.seed, provenance=provenance(params)
        )
        write_study(fresh, study, series, puzzles(test))
        write_attempts(fresh / ATTEMPTS_KIND, attempts(found, series))
        log = list(read_json_lines(models[0] / LOG_NAME))
        page = prr_page(study, fresh, is_arc=is_arc_folder(data), log=log)
        write_page(fresh / REPORT_NAME, study, page)
        return manifests.seal(fresh, kind=KIND, key=key)


def _check(
    data: pathlib.Path,
    models: Sequence[pathlib.Path],
    control: pathlib.Path | None,
    *,
    ensemble: bool,
) -> None:
    if len(models) > 1 and not ensemble:
        raise BadInputError(
            f"{len(models)} models: their votes would be mixed; name one, "
            "or pass --ensemble-checkpoints"
        )
    if len(models) > 1 and not is_arc_folder(data):
        raise BadInputError(f"{data}: only answers to puzzles of ARC vote; name one model")
    if control is not None and (branches := read_config(control).model.num_branches) > 1:
        raise BadInputError(f"{control}: {branches} branches; the control has one")


def _evaluate(  # noqa: PLR0913 - what an evaluation depends on
    data: pathlib.Path,
    test: PuzzleSet,
    folders: Sequence[pathlib.Path],
    num_models: int,
    fresh: pathlib.Path,
    *,
    params: Params,
    progress: Progress,
) -> Findings:
    """Evaluate the first ``num_models`` folders, which vote on ARC, and the control behind them."""
    own, is_arc = params.prr.evaluate, is_arc_folder(data)
    votes = ArcVotes(data, test) if is_arc else None
    answers_NAL = read_answers(data, test)

    size, mask = len(test.inputs_NL), grid_mask if is_arc else full_mask

    def predicted(place: int) -> Iterator[PredictedBatch]:
        model = load_model(folders[place], device=compute_device())
        for part in predict_batches(model, test, own, seed=params.seed, mask=mask):
            yield part
            progress(place * size + part.stop, len(folders) * size)
            if place < num_models:
                draw_examples(part, test, fresh, count=own.pictures, is_arc=is_arc)
                if votes is not None:
                    votes.add(part)

    sets: dict[str, EvaluatedSet] = {}
    for place, folder in enumerate(folders):
        name = f"{folder.name} {place}" if folder.name in sets else folder.name
        sets[name] = evaluate_set(predicted(place), answers_NAL=answers_NAL)
    names = [*sets]
    submitted = votes and votes.submit(fresh / SUBMISSION_NAME, voters=own.voters)
    return Findings(
        models={name: sets[name] for name in names[:num_models]},
        control={name: sets[name] for name in names[num_models:]},
        arc=None if votes is None else votes.metrics() | (submitted or {}),
    )


def compute_device() -> torch.device:
    """The first GPU, or the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def is_arc_folder(folder: pathlib.Path) -> bool:
    """True for ARC data, where predictions for all versions of a puzzle are pooled by voting."""
    return (folder / TEST_PUZZLES_NAME).is_file()


def draw_examples(
    part: PredictedBatch, data: PuzzleSet, folder: pathlib.Path, *, count: int, is_arc: bool
) -> None:
    """Write pictures of the examples of ``part`` with an index below ``count``."""
    answers = part.answers
    for row, example in enumerate(range(part.start, min(part.stop, count))):
        scores = zip(answers.scores_BK[row], answers.confidences_BK[row], strict=True)
        picture = example_svg(
            inputs_L=data.inputs_NL[example],
            labels_L=data.labels_NL[example],
            outputs_KL=answers.tokens_BKL[row],
            notes_K=[f"score {score:.1f}, conf {sure:.2f}" for score, sure in scores],
            is_arc=is_arc,
        )
        write_text(folder / PICTURES_NAME / f"{example_name(example)}.svg", picture)


def show_on(
    data: pathlib.Path, model: pathlib.Path, output: pathlib.Path, params: Params, *, count: int
) -> int:
    """Draw the predictions for the first ``count`` test examples; returns the number drawn.

    Raises:
        BadInputError: no example, a model trained for other data, or ``output`` holds other files.
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
