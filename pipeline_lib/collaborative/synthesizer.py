"""Training of a synthesizer from a cache of responses: SFT on right ones, then RL on its own syntheses."""

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline_lib.collaborative.episodes import (
    Episodes,
    JudgedQuestion,
    PromptForm,
    make_episodes,
)
from pipeline_lib.collaborative.message_cache import CachedQuestion, read_cache
from pipeline_lib.collaborative.settings import message_of
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.train import ONLINE, Method
from pipeline_lib.params.whole import Params
from pipeline_lib.serving.context import declared_context
from pipeline_lib.serving.identity import model_identity
from pipeline_lib.serving.pretrained import chat_format_of, load_tokenizer
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


def train_synthesizer(
    base: str,
    cache: pathlib.Path,
    output: pathlib.Path,
    params: Params,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> TrainedSynthesizer:
    """Train ``base`` to synthesize; an interrupted training of the same key is resumed.

    Raises:
        BadInputError: unusable base, cache or output, or no episode is left by the filters.
    """
    train = params.pacore.train
    if train.method not in _METHODS:
        raise BadInputError(
            f"pacore.train.method={train.method.value}; expected one of "
            f"{', '.join(sorted(method.value for method in _METHODS))}"
        )
    rows = output.with_name(f"{output.name}.episodes.jsonl")
    card = output.with_name(f"{output.name}.card.md")
    for file in (rows, card):
        check_output(file, source=cache)
    questions = read_cache(cache, kind=params.pacore.kind)
    form = _prompt_form(base, params)
    episodes = make_episodes(
        _judged(questions, params, workers=workers),
        params.pacore.episodes,
        form,
        seed=params.seed,
        supervised=train.method is Method.SFT,
    )
    if not episodes.rows:
        counts = ", ".join(f"{name}={count}" for name, count in episodes.counts.items())
        raise BadInputError(
            f"{cache}: no episodes ({counts}); raise pacore.episodes.max_mean_right, or cache more responses"
        )
    write_json_lines(rows, episodes.rows)
    write_text(card, _card(base, cache, params, episodes))
    request = TrainingRequest(
        base=base,
        output=output,
        rows=episodes.rows,
        problems=[question.problem for question in questions],
        params=train,
        verify=params.verify,
        max_new_tokens=params.pacore.max_new_tokens,
        serve=params.serve,
        seed=params.seed,
        key=_key(base, episodes, params),
        progress=progress,
        trackers=Trackers(
            names=params.execution.report_to, folder=output.with_name(f"{output.name}.trackers")
        ),
    )
    return TrainedSynthesizer(
        summary=train_policy(request), episodes=episodes, rows=rows, card=card
    )


def _judged(
    questions: Sequence[CachedQuestion], params: Params, *, workers: int
) -> list[JudgedQuestion]:
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
    tokenizer = load_tokenizer(base)
    chat_format = chat_format_of(tokenizer)
    if chat_format is None:
        raise BadInputError(f"{base}: the model has no chat template; give an instruct model")
    context = declared_context(pathlib.Path(base))

    def fits(prompt: str) -> bool:
        tokens = len(tokenizer.encode(prompt, add_special_tokens=False))
        return context is None or tokens + params.pacore.max_new_tokens <= context

    return PromptForm(render=chat_format.render, fits=fits, message_of=message_of(params.pacore))


def _key(base: str, episodes: Episodes, params: Params) -> str:
    return stage_key(
        __name__,
        params={
            "train": params.pacore.train.model_dump(mode="json"),
            "verify": params.verify.model_dump(mode="json"),
            "max_new_tokens": params.pacore.max_new_tokens,
            "seed": params.seed,
        },
        inputs={"base": model_identity(base), "episodes": digest_json(list(episodes.rows))},
    )


def _card(base: str, cache: pathlib.Path, params: Params, episodes: Episodes) -> str:
    low, high = params.pacore.episodes.references
    counts = "".join(
        f"| {name.replace('_', ' ')} | {count} |\n" for name, count in episodes.counts.items()
    )
    return (
        f"# Episodes of a synthesizer\n\nBase `{base}`, cache `{cache.name}`, method "
        f"{params.pacore.train.method.value}, seed {params.seed}; {low} to {high} references, compaction "
        f"{params.pacore.compaction.value}.\n\n| | |\n| --- | --- |\n{counts}"
    )
