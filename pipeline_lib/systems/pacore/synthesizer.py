"""Training of a synthesizer from a cache of responses: SFT on right ones, then RL on its own syntheses."""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline_lib.engines.chat_model import ChatFormat, Decoding
from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.model_config import declared_context
from pipeline_lib.engines.pretrained import load_chat_format, load_tokenizer
from pipeline_lib.engines.started_engine import started_engine
from pipeline_lib.engines.tokens import encode_prompt
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.train import ONLINE, Method, TrainParams
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Row
from pipeline_lib.store.files import check_output, digest_json, write_json_lines, write_text
from pipeline_lib.store.journal import open_journal
from pipeline_lib.store.keys import stage_key
from pipeline_lib.systems.pacore.branches import DrawnBranches
from pipeline_lib.systems.pacore.episodes import (
    OUTCOMES,
    Episodes,
    filter_by_syntheses,
    make_episodes,
)
from pipeline_lib.systems.pacore.message_cache import CachedQuestion
from pipeline_lib.systems.pacore.settings import call_tokens, message_of, require_chat_format
from pipeline_lib.systems.pacore.solution import PromptForm
from pipeline_lib.train.methods import TrainingRequest, TrainingSummary, train_policy
from pipeline_lib.train.online.rollouts import PathSource
from pipeline_lib.train.phases import Progress
from pipeline_lib.train.tracking.trackers import trackers_beside
from pipeline_lib.verify.dispatch import judge_texts, open_verifier, pooled_verifier


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedSynthesizer:
    """A trained model, its episodes, and the files beside it."""

    summary: TrainingSummary
    episodes: Episodes
    rows: pathlib.Path
    card: pathlib.Path


def chat_format_for(base: str) -> ChatFormat:
    """The chat template of a model that is to synthesize; BadInputError if it has none."""
    return require_chat_format(load_chat_format(base), base)


def train_synthesizer(
    base: str,
    questions: Sequence[CachedQuestion],
    output: pathlib.Path,
    params: Params,
    *,
    progress: Progress | None = None,
) -> TrainedSynthesizer:
    """Train ``base`` to synthesize; an interrupted training of the same key is resumed.

    An online method with ``warm_start_steps`` begins with SFT on supervised episodes of the same questions. With
    ``filter_draws`` it continues on those that the second filter keeps.

    Raises:
        BadInputError: unusable base or output, or no episode is left by the filters.
        EngineDownError: the server of the second filter does not answer.
    """
    train, settings = params.pacore.train, params.pacore.episodes

    def named(name: str) -> pathlib.Path:
        return output.with_name(f"{output.name}.{name}")

    episodes_file, card = named("episodes.jsonl"), named("card.md")
    for file in (episodes_file, card):
        check_output(file)
    form = _prompt_form(base, params)
    is_online = train.method in ONLINE
    episodes = make_episodes(questions, settings, form, seed=params.seed, supervised=not is_online)
    counts = dict(episodes.counts)
    _check_left(counts, "raise pacore.episodes.max_mean_right, or cache more responses")
    cold_start: Sequence[Row] = ()
    if is_online and train.warm_start_steps:
        cold_start = make_episodes(
            questions, settings, form, seed=params.seed, supervised=True
        ).rows

    def request(
        output: pathlib.Path, rows: Sequence[Row], train: TrainParams, cold_start: Sequence[Row]
    ) -> TrainingRequest:
        return TrainingRequest(
            base=base,
            output=output,
            rows=rows,
            warm_start_rows=cold_start,
            problems=[question.problem for question in questions],
            params=train,
            verify=params.verify,
            max_new_tokens=call_tokens(params.pacore, form.chat_format),
            serve=params.serve,
            through=_through(rows, questions, form, params),
            seed=params.seed,
            key=_key(base, [*cold_start, *rows], train, params),
            progress=progress,
            trackers=trackers_beside(output, params.execution),
        )

    if is_online and settings.filter_draws:
        if cold_start:
            train_policy(request(named("first-stage"), cold_start, supervised_training(train), ()))
            base, cold_start = str(named("first-stage")), ()
        outcomes = _filter(base, questions, form, params, named, progress)
        rows = [row for row in episodes.rows if outcomes.get(row["problem_id"]) == "kept"]
        found = [*outcomes.values()]
        counts |= {f"syntheses_{outcome}": found.count(outcome) for outcome in OUTCOMES}
        counts["episodes"] = len(rows)
        episodes = replace(episodes, rows=rows)
        _check_left(counts, "change the first stage, or set pacore.episodes.filter_draws=0")
    write_json_lines(episodes_file, episodes.rows)
    write_text(card, _card(base, params, counts))
    return TrainedSynthesizer(
        summary=train_policy(request(output, episodes.rows, train, cold_start)),
        episodes=replace(episodes, counts=counts),
        rows=episodes_file,
        card=card,
    )


def supervised_training(train: TrainParams) -> TrainParams:
    """SFT with the schedule of a synthesizer's SFT, which is the cold start of an online method.

    Without a cold start: as many steps as the online method, at its rate and batch size.
    """
    changes: dict[str, object] = {"method": Method.SFT}
    if train.method is not Method.SFT and train.warm_start_steps:
        changes |= {
            "steps": train.warm_start_steps,
            "lr": train.warm_start_lr,
            "batch_size": train.warm_start_batch_size,
        }
    return train.model_copy(update=changes)


def _filter(
    base: str,
    questions: Sequence[CachedQuestion],
    form: PromptForm,
    params: Params,
    named: Callable[[str], pathlib.Path],
    progress: Progress | None,
) -> dict[str, str]:
    """Outcomes of the second filter for the questions that the first one keeps."""
    settings = params.pacore.episodes
    rows = make_episodes(
        questions,
        settings.model_copy(update={"draws": settings.filter_draws}),
        form,
        seed=params.seed,
        supervised=False,
    ).rows
    decoding = Decoding(max_new_tokens=call_tokens(params.pacore, form.chat_format))
    batch_size = params.pacore.batch_size
    with (
        started_engine(
            base, params.serve, log_folder=named("logs"), batch_size=batch_size
        ) as engine,
        open_verifier(params.verify) as verifier,
    ):
        judged = [params.verify.model_dump(mode="json"), params.seed, decoding.max_new_tokens]
        key = digest_json([engine.identity, engine.engine, digest_json(rows), judged])
        return filter_by_syntheses(
            engine,
            questions,
            rows,
            decoding=decoding,
            seed=params.seed,
            together=params.pacore.problems_together,
            verifier=verifier,
            journal=open_journal(named("filter.jsonl"), key=key, replaces_other=True),
            on_progress=lambda done, total: progress(done, total, {}) if progress else None,
        )


def _check_left(counts: Mapping[str, int], remedy: str) -> None:
    if not counts["episodes"]:
        found = ", ".join(f"{name}={count}" for name, count in counts.items())
        raise BadInputError(f"no episodes ({found}); {remedy}")


def judge_cache(
    questions: Sequence[CachedQuestion], params: Params, *, workers: int
) -> list[CachedQuestion]:
    """The questions with a verdict of each response."""
    texts = ((one.problem, text) for one in questions for text in one.responses)
    with open_verifier(params.verify, workers=workers) as verifier:
        verdicts = judge_texts(texts, verifier)
    return [
        replace(one, right=[verdicts[one.problem.id, text].strict for text in one.responses])
        for one in questions
    ]


def _prompt_form(base: str, params: Params) -> PromptForm:
    chat_format, tokenizer = chat_format_for(base), load_tokenizer(base)
    context, most = declared_context(pathlib.Path(base)), call_tokens(params.pacore, chat_format)

    def fits(prompt: str) -> bool:
        tokens = len(encode_prompt(tokenizer, prompt))
        return context is None or tokens + most <= context

    def message(text: str) -> str | None:
        with pooled_verifier(params.verify) as verifier:
            return message_of(params.pacore, verifier)(text)

    return PromptForm(chat_format=chat_format, fits=fits, message_of=message)


def _through(
    rows: Sequence[Row], questions: Sequence[CachedQuestion], form: PromptForm, params: Params
) -> Callable[[PathSource], PathSource]:
    if params.pacore.train.branches == "cached":
        return lambda source: source
    asked = {question.problem.id: question.conversation for question in questions}
    by_prompt = {row["prompt"]: asked[row["problem_id"]] for row in rows}
    return lambda one: DrawnBranches(one, by_prompt, form, params.pacore.episodes, params.seed)


def _key(base: str, rows: Sequence[Row], train: TrainParams, params: Params) -> str:
    return stage_key(
        __name__,
        params={
            "train": train.model_dump(mode="json"),
            "verify": params.verify.model_dump(mode="json"),
            "max_new_tokens": params.pacore.max_new_tokens,
            "seed": params.seed,
            "compaction": [params.pacore.compaction, params.pacore.kind],
            "references": params.pacore.episodes.references,
        },
        inputs={"base": model_identity(base), "episodes": digest_json(rows)},
    )


def _card(base: str, params: Params, counts: Mapping[str, int]) -> str:
    low, high = params.pacore.episodes.references
    lines = "".join(f"| {name.replace('_', ' ')} | {count} |\n" for name, count in counts.items())
    return (
        f"# Episodes of a synthesizer\n\nBase `{base}`, method "
        f"{params.pacore.train.method.value}, seed {params.seed}; {low} to {high} references, compaction "
        f"{params.pacore.compaction.value}.\n\n| | |\n| --- | --- |\n{lines}"
    )
