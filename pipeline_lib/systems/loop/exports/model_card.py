"""The model card of a trained policy: training, data, results and limits.

Claims are the sentences of the report. The card is written to ``reports/``, not to the policy's
folder, whose manifest is sealed before the evaluation and is an input of later stages.
:func:`export_policy` makes a folder with both, for publishing.
"""

import pathlib
import shutil
from collections.abc import Iterator

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from pipeline_lib.engines.identity import is_path
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.store import manifests
from pipeline_lib.store.files import write_text
from pipeline_lib.store.folders import replaced
from pipeline_lib.study.pages.page import study_tables
from pipeline_lib.study.pages.tables import mapping_table, markdown_tables
from pipeline_lib.study.pages.wording import percent
from pipeline_lib.study.plan import TRAINED, temperatures
from pipeline_lib.systems.loop.compute import spent_table
from pipeline_lib.systems.loop.finished_run import FinishedRun
from pipeline_lib.systems.loop.reporting.control_text import limits_of_claim
from pipeline_lib.train.token_budget import weights_text

CARD_NAME = "model_card.md"
PUBLISHED_NAME = "README.md"
"""Name of the card in a model repository."""


def model_card(run: FinishedRun) -> str:
    """The card of a finished run as Markdown with a Hugging Face metadata block."""
    title, *claims = run.study.claims
    shown = [*study_tables(run.study), spent_table(run.study.compute)]
    text = "\n\n".join(
        [
            f"# {_name(run.params)}: {title}",
            *claims,
            *limits_of_claim(run),
            _made_of(run),
            "## Results",
            markdown_tables(shown),
            _how_measured(run),
            "## Data",
            _data(run),
            "## Limits",
            *_limits(run),
            "## Digests",
            markdown_tables([mapping_table("Digests of the run", run.lineage)]),
        ]
    )
    return str(ModelCard(f"---\n{_metadata(run).to_yaml()}\n---\n\n{text}\n"))


def export_policy(policy: pathlib.Path, card: str, output: pathlib.Path) -> None:
    """Copy a policy's files, verified against the manifest, and its card to a new folder.

    Raises:
        BadInputError: ``output`` exists, or the policy is damaged.
    """
    if output.exists():
        raise BadInputError(f"{output}: exists; remove it or choose another --output")
    manifest = manifests.read_manifest(policy)
    manifests.check(policy, manifest)
    with replaced(output) as fresh:
        for name in manifest.files:
            target = fresh / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(policy / name, target)
        write_text(fresh / PUBLISHED_NAME, card)


def _name(params: Params) -> str:
    return f"{params.prepare.dataset}-{params.train.method.value}-seed-{params.seed}"


def _base_model(params: Params) -> str | None:
    """A hub id; None for a local folder and for a model trained from scratch."""
    model = params.bootstrap.model
    return None if model is None or is_path(model) else model


def _metadata(run: FinishedRun) -> ModelCardData:
    params = run.params
    return ModelCardData(
        model_name=_name(params),
        base_model=_base_model(params),
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["reasonloop", params.train.method.value, params.prepare.dataset],
        eval_results=list(_eval_results(run)),
    )


def _eval_results(run: FinishedRun) -> Iterator[EvalResult]:
    """Strict and lenient pass@k of the trained policy, each with its interval."""
    params = run.params
    for name, points in run.points(TRAINED).items():
        for found in points:
            yield EvalResult(
                task_type="text-generation",
                dataset_type=params.prepare.dataset,
                dataset_name=params.prepare.dataset,
                dataset_split="test",
                metric_type=found.measure,
                metric_name=f"{found.measure}, {name}",
                metric_value=round(found.value, 4),
                metric_args={
                    "low": round(found.low, 4),
                    "high": round(found.high, 4),
                    "level": run.study.level,
                    "problems": found.n,
                    "paths_per_problem": params.evaluate.num_paths,
                },
                verified=False,
            )


def _made_of(run: FinishedRun) -> str:
    params = run.params
    model = params.bootstrap.model
    start = (
        f"a Llama-type model of {params.bootstrap.num_layers} layers and width "
        f"{params.bootstrap.hidden_size}, trained from scratch by {params.bootstrap.steps} supervised "
        f"steps on worked solutions at a learning rate of at most {params.bootstrap.lr:.2g}"
        if model is None
        else f"`{_base_model(params) or pathlib.Path(model).name}`"
    )
    train = params.train
    trained = weights_text(run.study.compute["loop"])
    adapted = f", by a LoRA adapter of rank {train.lora.rank}" if train.lora.enabled else ""
    adapted += f", {trained} of the weights" if trained else ""
    rounds = "1 round" if params.rounds == 1 else f"{params.rounds} rounds"
    return (
        f"It started from {start} and was trained by {train.method.value.upper()} "
        f"({rounds} of {_phases(run)}{adapted}; seed {params.seed}). "
        "Rewards and training data come from a verifier, not from a model."
    )


def _phases(run: FinishedRun) -> str:
    """Phases of the last round with their logged steps and learning rates."""
    rows: dict[str, list[float]] = {}
    for row in run.training_log:
        rows.setdefault(str(row.get("phase", "training")), []).append(float(row.get("lr", 0)))
    return (
        ", ".join(
            f"{len(rates)} steps of {phase} at a learning rate of at most {max(rates):.2g}"
            for phase, rates in rows.items()
        )
        or "no step logged"
    )


def _how_measured(run: FinishedRun) -> str:
    counts = run.counts[TRAINED]
    return (
        f"Brackets are {100 * run.study.level:g} % intervals over {run.num_problems} held-out "
        "problems. The strict score requires the right answer in the requested format, the lenient "
        "score the right answer anywhere. A difference is a finding only if its paired interval "
        "excludes zero and a sign-flip test over problems is significant. "
        f"{percent(counts.truncated)} of the paths were truncated at the token limit; "
        f"{counts.unscored} of {counts.paths} paths could not be judged and are in no "
        "score."
    )


def _data(run: FinishedRun) -> str:
    figures = mapping_table("Training data", run.data_counts)
    overlap = mapping_table("Overlap of train and test questions", run.overlap)
    return (
        f"Problems of {run.params.prepare.dataset}; no question of the test split is in a training "
        f"split.\n\n"
        f"{markdown_tables([figures, overlap])}"
    )


def _limits(run: FinishedRun) -> Iterator[str]:
    params = run.params
    left_out = run.counts[TRAINED].left_out
    measured = " and ".join(f"{value:g}" for value in temperatures(params))
    yield (
        f"- Measured on {params.prepare.dataset} alone, at temperature {measured} "
        f"and at most {params.sample.max_new_tokens} new tokens. Other problems, languages and "
        "prompts were not measured."
    )
    yield (
        "- One training with one seed. The intervals cover other problems of the same kind, not other "
        "trainings."
    )
    if params.bootstrap.model is None:
        yield "- A small model for one kind of puzzle, not a general language model."
    if left_out:
        yield f"- {left_out} problems had too few judged paths and are in no score."
