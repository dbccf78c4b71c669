"""Training of a synthesizer from a cache of responses: SFT on right ones, then RL on its own syntheses."""

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pipeline_lib.collaborative.episodes import (
    Episodes,
    JudgedQuestion,
    PromptForm,
    make_episodes,
)
from pipeline_lib.collaborative.message_cache import CachedQuestion
from pipeline_lib.collaborative.settings import call_tokens, message_of, require_chat_format
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.train import ONLINE, Method, TrainParams
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Row
from pipeline_lib.serving.chat_model import ChatFormat
from pipeline_lib.serving.context import declared_context
from pipeline_lib.serving.identity import model_identity
from pipeline_lib.serving.pretrained import load_chat_format, load_tokenizer
from pipeline_lib.stages.keys import stage_key
from pipeline_lib.storage.files import check_output, digest_json, write_json_lines, write_text
from pipeline_lib.training.methods import TrainingRequest, TrainingSummary, train_policy
from pipeline_lib.training.phases import Progress
from pipeline_lib.training.tracking.trackers import Trackers
from pipeline_lib.verification.dispatch import Item, open_verifier

_METHODS = ONLINE | {Method.SFT}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedSynthesizer:
    """A trained model, its episodes, and the files beside it."""

    summary: TrainingSummary
    episodes: Episodes
    rows: pathlib.Path
    card: pathlib.Path


def check_method(train: TrainParams) -> None:
    """Check that a synthesizer can be trained by the method.

    Raises:
        BadInputError: it cannot.
    """
    if train.method not in _METHODS:
        raise BadInputError(
            f"pacore.train.method={train.method.value}; expected one of "
            f"{', '.join(sorted(method.value for method in _METHODS))}"
        )


def chat_format_for(base: str) -> ChatFormat:
    """The chat template of a model that is to synthesize.

    Raises:
        BadInputError: it has none.
    """
    return require_chat_format(load_chat_format(base), base)


def train_synthesizer(
    base: str,
    questions: Sequence[JudgedQuestion],
    output: pathlib.Path,
    params: Params,
    *,
    progress: Progress | None = None,
) -> TrainedSynthesizer:
    """Train ``base`` to synthesize; an interrupted training of the same key is resumed.

    An online method with ``warm_start_steps`` begins with SFT on supervised episodes of the same questions.

    Raises:
        BadInputError: unusable base or output, or no episode is left by the filters.
    """
    train = params.pacore.train
    check_method(train)
    rows = output.with_name(f"{output.name}.episodes.jsonl")
    card = output.with_name(f"{output.name}.card.md")
    for file in (rows, card):
        check_output(file)
    form = _prompt_form(base, params)
    make = partial(make_episodes, questions, params.pacore.episodes, form, seed=params.seed)
    is_online = train.method in ONLINE
    episodes = make(supervised=not is_online)
    cold_start = make(supervised=True).rows if is_online and train.warm_start_steps else ()
    if not episodes.rows:
        counts = ", ".join(f"{name}={count}" for name, count in episodes.counts.items())
        raise BadInputError(
            f"no episodes ({counts}); raise pacore.episodes.max_mean_right, or cache more responses"
        )
    write_json_lines(rows, episodes.rows)
    write_text(card, _card(base, params, episodes))
    request = TrainingRequest(
        base=base,
        output=output,
        rows=episodes.rows,
        warm_start_rows=cold_start,
        problems=[question.cached.problem for question in questions],
        params=train,
        verify=params.verify,
        max_new_tokens=call_tokens(params.pacore, form.chat_format),
        serve=params.serve,
        seed=params.seed,
        key=_key(base, [*cold_start, *episodes.rows], params),
        progress=progress,
        trackers=Trackers(
            names=params.execution.report_to, folder=output.with_name(f"{output.name}.trackers")
        ),
    )
    return TrainedSynthesizer(
        summary=train_policy(request), episodes=episodes, rows=rows, card=card
    )


def judge_cache(
    questions: Sequence[CachedQuestion], params: Params, *, workers: int
) -> list[JudgedQuestion]:
    """The questions with a verdict of each response."""
    items = [
        Item(gold=question.problem.gold, text=text)
        for question in questions
        for text in question.responses
    ]
    with open_verifier(params.verify, workers=workers) as verifier:
        verdicts = iter(verifier.judge(items))
    return [
        JudgedQuestion(cached=question, right=[next(verdicts).strict for _ in question.responses])
        for question in questions
    ]


def _prompt_form(base: str, params: Params) -> PromptForm:
    chat_format, tokenizer = chat_format_for(base), load_tokenizer(base)
    context, most = declared_context(pathlib.Path(base)), call_tokens(params.pacore, chat_format)

    def fits(prompt: str) -> bool:
        tokens = len(tokenizer.encode(prompt, add_special_tokens=False))
        return context is None or tokens + most <= context

    return PromptForm(chat_format=chat_format, fits=fits, message_of=message_of(params.pacore))


def _key(base: str, rows: Sequence[Row], params: Params) -> str:
    return stage_key(
        __name__,
        params={
            "train": params.pacore.train.model_dump(mode="json"),
            "verify": params.verify.model_dump(mode="json"),
            "max_new_tokens": params.pacore.max_new_tokens,
            "seed": params.seed,
        },
        inputs={"base": model_identity(base), "episodes": digest_json(rows)},
    )


def _card(base: str, params: Params, episodes: Episodes) -> str:
    low, high = params.pacore.episodes.references
    counts = "".join(
        f"| {name.replace('_', ' ')} | {count} |\n" for name, count in episodes.counts.items()
    )
    return (
        f"# Episodes of a synthesizer\n\nBase `{base}`, method "
        f"{params.pacore.train.method.value}, seed {params.seed}; {low} to {high} references, compaction "
        f"{params.pacore.compaction.value}.\n\n| | |\n| --- | --- |\n{counts}"
    )
