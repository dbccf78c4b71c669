"""Evaluation of models on a data set's test problems: trials, the study and its page in a folder."""

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pipeline_lib.engines.chat_model import ChatModel, Message
from pipeline_lib.engines.started_engine import started_engine
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.splits import Splits, make_splits
from pipeline_lib.problems.trained import seen_in_training, trained_on
from pipeline_lib.publish.reporting.revision import provenance
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import user_message
from pipeline_lib.store.files import check_output, digest_json
from pipeline_lib.store.journal import Journal, open_journal
from pipeline_lib.store.shards import split
from pipeline_lib.study.attempts import ATTEMPTS_KIND, write_attempts
from pipeline_lib.study.pages.page import REPORT_NAME, Page, Paper, write_page
from pipeline_lib.study.study import METRICS_NAME, Series, Study, write_study
from pipeline_lib.systems.pacore.drive import solve_all
from pipeline_lib.systems.pacore.evaluation.examples import make_examples
from pipeline_lib.systems.pacore.evaluation.judging import (
    JudgedProblem,
    Verdicts,
    attempts_of,
    judge_texts,
    judged_problem,
)
from pipeline_lib.systems.pacore.evaluation.study import (
    EvaluatedModel,
    StudyContext,
    attempt_arms,
    further_tables,
    pacore_study,
)
from pipeline_lib.systems.pacore.evaluation.trials import (
    Strategy,
    Trial,
    make_strategies,
    make_trial,
    read_trial,
)
from pipeline_lib.systems.pacore.settings import check_lengths, identity_of, open_setting
from pipeline_lib.systems.pacore.solution import Question, Solution
from pipeline_lib.verify.dispatch import open_verifier
from pipeline_lib.verify.golds import open_gold_check

PAPER = Paper(
    title="PaCoRe: Learning to Scale Test-Time Compute with Parallel Coordinated Reasoning",
    url="https://arxiv.org/abs/2601.05593",
)
NOTE = (
    "A vote chooses among independent paths without the gold. A synthesis is the last call of rounds in which each "
    "path sees the paths of the round before. Its reference is the vote that is best on these problems among those "
    "that cost no more, which favours votes."
)
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationFiles:
    """Files of an evaluation: its study, page, tables, and trials, which a killed evaluation continues from."""

    folder: pathlib.Path
    replaces: bool = False
    """Trials of another input, model or setting are dropped, not refused."""

    @property
    def metrics(self) -> pathlib.Path:
        """The figures."""
        return self.folder / METRICS_NAME

    @property
    def report(self) -> pathlib.Path:
        """The page."""
        return self.folder / REPORT_NAME

    def open_trials(self, place: int, *, key: str) -> Journal:
        """The trials of the model at ``place`` so far.

        Raises:
            BadInputError: those there are of other work, or damaged.
        """
        path = self.folder / f"trials-{place + 1}.jsonl"
        return open_journal(path, key=key, replaces_other=self.replaces)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    trials: dict[str, dict[str, Trial]]
    """By problem and strategy."""
    verdicts: Verdicts
    problems: Mapping[str, JudgedProblem | None]
    """By id; None: a call or the verifier failed."""


def read_splits(params: Params) -> Splits:
    """The splits of the data set of ``params``.

    Raises:
        BadInputError: the data set cannot be used.
    """
    with open_gold_check() as gold_problem:
        return make_splits(params.prepare, seed=params.seed, gold_problem=gold_problem)


def evaluate_models(  # noqa: PLR0913 - what is evaluated and how
    models: Mapping[str, str],
    problems: Sequence[Problem],
    files: EvaluationFiles,
    params: Params,
    *,
    about: str,
    workers: int = 1,
    on_progress: OnProgress = lambda _done, _total: None,
) -> Study:
    """Evaluate each model on ``problems`` with the same seeds and write the results; a killed evaluation continues.

    A problem with a failed call of one model is left out for all, so that the models can be compared.

    Args:
        models: Hugging Face folders or hub ids, by their names in the result.
        problems: of one kind.
        files: to write.
        params: decoding, strategies, verifier, intervals.
        about: name of the model whose syntheses the evaluation is about.
        workers: processes of the verifier.
        on_progress: called with finished and all trials.

    Raises:
        BadInputError: unusable model or output, or no problem without a failed call.
        EngineDownError: the server does not answer; finished trials are kept.
    """
    for file in (files.metrics, files.report):
        check_output(file)
    total = len(models) * len(problems) * len(make_strategies(params.pacore))
    judged: dict[str, _Judged] = {}
    for place, (name, model) in enumerate(models.items()):
        before = place * total // len(models)

        def moved(done: int, before: int = before) -> None:
            on_progress(before + done, total)

        trials = draw_trials(model, problems, files, params, place=place, moved=moved)
        judged[name] = _judge(problems, trials, params, workers=workers)
    study, series = _study(models, judged, problems, params, about=about)
    arms = {name: attempt_arms(series, name) for name in models}
    attempts = [
        replace(attempt, arm=arms[name][attempt.arm])
        for name, one in judged.items()
        for trials in one.trials.values()
        for trial in trials.values()
        for attempt in attempts_of(trial, one.verdicts)
    ]
    write_attempts(files.folder / ATTEMPTS_KIND, attempts)
    write_study(files.folder, study, series, problems)
    write_page(files.report, study, _page(study, judged, problems, params))
    return study


def draw_trials(
    model: str,
    problems: Sequence[Problem],
    files: EvaluationFiles,
    params: Params,
    *,
    place: int,
    moved: Callable[[int], None],
) -> dict[str, dict[str, Trial]]:
    """The trials of one model, by problem and strategy; those that were drawn before are read.

    Args:
        model: as in `evaluate_models`.
        problems: of one kind.
        files: with the resumable trials.
        params: decoding, strategies, verifier of an early stop.
        place: of the model among those that are compared, from 0.
        moved: called with finished trials.

    Raises:
        BadInputError: unusable model or output.
        EngineDownError: the server does not answer; finished trials are kept.
    """
    kind = {"kind": problems[0].kind.name} if problems[0].kind.votable else {}
    params = params.model_copy(update={"pacore": params.pacore.model_copy(update=kind)})
    strategies = make_strategies(params.pacore)
    with started_engine(
        model,
        params.serve,
        log_folder=files.folder / "logs",
        batch_size=params.pacore.batch_size,
    ) as engine:
        journal = files.open_trials(place, key=_key(engine, problems, params))
        trials = {name: read_trial(piece) for name, piece in journal.pieces.items()}

        def keep(strategy: Strategy, solution: Solution) -> None:
            trial = make_trial(strategy, solution)
            trials[trial.name] = trial
            # A failed call is asked again by the next command.
            if trial.is_complete:
                journal.add(trial.name, trial.row())

        moved(len(trials))
        with open_setting(engine, params.pacore, params.verify, seed=params.seed) as setting:
            questions = _ask(problems, engine)
            check_lengths(questions.values(), setting)
            for group in split(problems, params.pacore.problems_together):
                # Plain paths are the first rounds of the strategies: drawn once for a group.
                shared = replace(setting, memory={})
                for strategy in strategies:
                    solve_all(
                        engine,
                        [
                            questions[problem.id]
                            for problem in group
                            if strategy.trial_name(problem.id) not in trials
                        ],
                        replace(shared, plan=strategy.plan, early_stop=strategy.early_stop),
                        together=len(group),
                        on_solved=partial(keep, strategy),
                    )
                    moved(len(trials))
    return {
        problem.id: {
            strategy.name: trials[strategy.trial_name(problem.id)] for strategy in strategies
        }
        for problem in problems
    }


def _ask(problems: Iterable[Problem], engine: ChatModel) -> dict[str, Question]:
    """The question of each problem, by its id."""
    chat_format = engine.chat_format
    assert chat_format is not None  # by the check of the setting
    return {
        problem.id: Question(
            id=problem.id, conversation=[Message.user(user_message(problem, chat_format))]
        )
        for problem in problems
    }


def _key(engine: ChatModel, problems: Sequence[Problem], params: Params) -> str:
    compared = params.pacore.evaluate.model_dump(mode="json")
    rows = [problem.row() for problem in problems]
    return digest_json([identity_of(engine, params), compared, rows])


def _judge(
    problems: Sequence[Problem],
    trials: dict[str, dict[str, Trial]],
    params: Params,
    *,
    workers: int,
) -> _Judged:
    with open_verifier(params.verify, workers=workers) as verifier:
        verdicts = judge_texts(problems, trials, verifier)
        found = {
            problem.id: judged_problem(problem, trials[problem.id], verdicts, verifier)
            for problem in problems
        }
    return _Judged(trials=trials, verdicts=verdicts, problems=found)


def _study(
    models: Mapping[str, str],
    judged: Mapping[str, _Judged],
    problems: Sequence[Problem],
    params: Params,
    *,
    about: str,
) -> tuple[Study, list[Series]]:
    """The study of the problems that are whole for all models."""
    columns = [one.problems for one in judged.values()]
    whole = [name for name in columns[0] if all(column[name] for column in columns)]
    evaluated = [
        EvaluatedModel(
            name=name,
            problems=[found for one in whole if (found := judged[name].problems[one])],
            seen=seen_in_training(model, problems),
        )
        for name, model in models.items()
    ]
    context = StudyContext(
        about=about,
        params=params.evaluate,
        seed=params.seed,
        provenance=provenance(params),
        num_left_out=len(columns[0]) - len(whole),
    )
    study, series = pacore_study(evaluated, context)
    warnings = trained_on(_unclaimed(models, study), problems)
    return study.with_claims((*study.claims, *warnings)), series


def _unclaimed(models: Mapping[str, str], study: Study) -> dict[str, str]:
    """The models that the first difference is not of; the claims have a sentence on the training of the others."""
    first = study.differences[0]
    settings = [one.settings for one in study.arms if one.name in {first.arm, first.reference}]
    claimed = {one["model"] for one in settings}
    return {name: model for name, model in models.items() if name not in claimed}


def _page(
    study: Study, judged: Mapping[str, _Judged], problems: Sequence[Problem], params: Params
) -> Page:
    shown = {name: (one.trials, one.verdicts) for name, one in judged.items()}
    return Page(
        title="synthesis against votes",
        paper=PAPER,
        notes=(NOTE,),
        figures_by="model",
        tables=further_tables(study),
        examples=make_examples(problems, shown, limit=params.report.num_examples),
    )
