"""Evaluation of models on a data set's test problems: trials, metrics.json and report.html in a folder."""

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pipeline_lib.engines.chat_model import ChatModel, Message
from pipeline_lib.engines.started_engine import started_engine
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.splits import Splits, make_splits
from pipeline_lib.problems.trained import trained_on
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import user_message
from pipeline_lib.store.files import check_output, digest_json, write_json
from pipeline_lib.store.journal import Journal, open_journal
from pipeline_lib.store.shards import split
from pipeline_lib.systems.pacore.drive import solve_all
from pipeline_lib.systems.pacore.evaluation.estimates import EstimateContext, estimate
from pipeline_lib.systems.pacore.evaluation.judging import Scores, judge_texts, judged_problem
from pipeline_lib.systems.pacore.evaluation.outcomes import JudgedProblem
from pipeline_lib.systems.pacore.evaluation.page import Page, write_page
from pipeline_lib.systems.pacore.evaluation.result import PacoreResult, result_rows
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

METRICS_NAME = "metrics.json"
REPORT_NAME = "report.html"

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationFiles:
    """Files of an evaluation: metrics.json, report.html, and trials, which a killed evaluation continues from."""

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
    scores: Scores
    problems: Mapping[str, JudgedProblem | None]
    """By id; None: a call or the verifier failed."""


def read_splits(params: Params) -> Splits:
    """The splits of the data set of ``params``.

    Raises:
        BadInputError: the data set cannot be used.
    """
    with open_gold_check() as gold_problem:
        return make_splits(params.prepare, seed=params.seed, gold_problem=gold_problem)


def evaluate_models(
    models: Mapping[str, str],
    problems: Sequence[Problem],
    files: EvaluationFiles,
    params: Params,
    *,
    workers: int = 1,
    on_progress: OnProgress = lambda _done, _total: None,
) -> list[PacoreResult]:
    """Evaluate each model on ``problems`` with the same seeds and write the results; a killed evaluation continues.

    A problem with a failed call of one model is left out for all, so that the models can be compared.

    Args:
        models: Hugging Face folders or hub ids, by their names in the result.
        problems: of one kind.
        files: to write.
        params: decoding, strategies, verifier, intervals.
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
    results = [
        replace(one, trained_on=tuple(trained_on({one.model: models[one.model]}, problems)))
        for one in _estimate(judged, params)
    ]
    write_json(files.metrics, result_rows(results))
    pages = [
        Page(result=result, problems=problems, trials=one.trials, scores=one.scores)
        for result, one in zip(results, judged.values(), strict=True)
    ]
    write_page(files.report, pages, num_examples=params.report.num_examples)
    return results


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
        scores = judge_texts(problems, trials, verifier)
        found = {
            problem.id: judged_problem(problem, trials[problem.id], scores, verifier)
            for problem in problems
        }
    return _Judged(trials=trials, scores=scores, problems=found)


def _estimate(judged: Mapping[str, _Judged], params: Params) -> list[PacoreResult]:
    """The result of each model, on the problems that are whole for all of them."""
    columns = [one.problems for one in judged.values()]
    names = [name for name in columns[0] if all(column[name] for column in columns)]
    whole = {
        model: [found for name in names if (found := one.problems[name]) is not None]
        for model, one in judged.items()
    }
    context = EstimateContext(
        num_left_out=len(columns[0]) - len(names), params=params.evaluate, seed=params.seed
    )
    return estimate(whole, context)
