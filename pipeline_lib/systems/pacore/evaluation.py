"""Evaluation of models on a data set's test problems: trials, the study and its page in a folder."""

import itertools
import pathlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from pipeline_lib.engines.chat_model import ChatModel
from pipeline_lib.engines.started_engine import started_engine
from pipeline_lib.own.code import names_of
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.loading import task_in
from pipeline_lib.problems.own_task import PARTS
from pipeline_lib.problems.splits import split_notes
from pipeline_lib.problems.trained import seen_in_training, trained_on
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import conversation
from pipeline_lib.sampling.splits import checked_problems, checked_splits
from pipeline_lib.store.files import check_output, digest_json
from pipeline_lib.store.journal import open_journal
from pipeline_lib.store.shards import split
from pipeline_lib.study.attempts import ATTEMPTS_KIND, write_attempts
from pipeline_lib.study.pages.page import (
    REPORT_NAME,
    Example,
    Page,
    Paper,
    ShownText,
    ShownTexts,
    write_page,
)
from pipeline_lib.study.provenance import provenance
from pipeline_lib.study.study import METRICS_NAME, Study, write_study
from pipeline_lib.systems.pacore import retries
from pipeline_lib.systems.pacore.drive import solve_all
from pipeline_lib.systems.pacore.parts import PartsOf, check_parts
from pipeline_lib.systems.pacore.rounds import Setting
from pipeline_lib.systems.pacore.settings import (
    check_lengths,
    identity_of,
    open_setting,
    require_chat_format,
)
from pipeline_lib.systems.pacore.solution import Question, Solution
from pipeline_lib.systems.pacore.study import (
    EvaluatedModel,
    attempt_arms,
    further_tables,
    gate_tables,
    pacore_study,
)
from pipeline_lib.systems.pacore.trials import (
    PLAIN,
    JudgedProblem,
    Strategy,
    Trial,
    TrialPath,
    attempts_of,
    is_right,
    judged_problem,
    make_strategies,
    make_trial,
    read_trial,
    texts_in_parts,
)
from pipeline_lib.verify.dispatch import TextVerdicts, judge_texts, open_verifier

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
class _Judged:
    trials: dict[str, dict[str, Trial]]
    """By problem and strategy."""
    verdicts: TextVerdicts
    problems: Mapping[str, JudgedProblem | None]
    """By id; None: a call or the verifier failed."""


def read_problems(
    params: Params, *, is_whole: bool = False
) -> tuple[Sequence[Problem], str | None]:
    """The evaluated problems, and a note if there are fewer than wanted.

    They are the test split of the data set of ``params``, or with ``is_whole`` the first of ``evaluate.sets``.

    Raises:
        BadInputError: the data set cannot be used.
    """
    if is_whole:
        return checked_problems(params.evaluate.sets[0], seed=params.seed)
    splits = checked_splits(params.prepare, seed=params.seed)
    return splits.test, split_notes(asdict(splits.report)).get("test")


def evaluate_models(  # noqa: PLR0913 - what is evaluated and how
    models: Mapping[str, str],
    problems: Sequence[Problem],
    folder: pathlib.Path,
    params: Params,
    *,
    about: str,
    plain: Collection[str] = (),
    replaces: bool = False,
    workers: int = 1,
    on_progress: OnProgress = lambda _done, _total: None,
) -> Study:
    """Evaluate each model on ``problems`` with the same seeds and write the results; a killed evaluation continues.

    A problem with a failed call of one model is left out for all, so that the models can be compared. ``models`` are
    Hugging Face folders or hub ids by their names in the result, which is ``about`` the syntheses of one of them;
    ``problems`` are of one kind. From models that are ``plain`` no syntheses are drawn. With ``replaces`` trials of
    another input, model or setting in ``folder`` are dropped, not refused. ``on_progress`` is called with finished and
    all trials.

    Raises:
        BadInputError: unusable model or output, or no problem without a failed call.
        EngineDownError: the server does not answer; finished trials are kept.
    """
    for name in (METRICS_NAME, REPORT_NAME):
        check_output(folder / name)
    strategies = {
        name: make_strategies(params.pacore, problems=len(problems), synthesizes=name not in plain)
        for name in models
    }
    counts = [len(problems) * len(own) for own in strategies.values()]
    judged: dict[str, _Judged] = {}
    for place, (name, model) in enumerate(models.items()):
        before = sum(counts[:place])

        def moved(done: int, before: int = before) -> None:
            on_progress(before + done, sum(counts))

        trials = draw_trials(
            model,
            problems,
            folder,
            params,
            place=place,
            strategies=strategies[name],
            replaces=replaces,
            moved=moved,
        )
        judged[name] = _judge(problems, trials, params, workers=workers)
    columns = [one.problems for one in judged.values()]
    whole = [name for name in columns[0] if all(column[name] for column in columns)]
    evaluated = {
        name: [found for one in whole if (found := judged[name].problems[one])] for name in models
    }
    # A user's model may have any name.
    retried = evaluated.pop(retries.MODEL, None) if retries.MODEL in plain else None
    study, series = pacore_study(
        [
            EvaluatedModel(name=name, problems=own, seen=seen_in_training(models[name], problems))
            for name, own in evaluated.items()
        ],
        about=about,
        params=params.evaluate,
        seed=params.seed,
        provenance=provenance(params),
        num_left_out=len(columns[0]) - len(whole),
        retries=retries.Retries(problems=retried) if retried else None,
    )
    warnings = trained_on(_unclaimed(models, study), problems)
    study = study.with_claims((*study.claims, *warnings))
    arms = {name: attempt_arms(series, name) for name in evaluated}
    if retried:
        arms[retries.MODEL] = retries.ATTEMPT_ARMS
    attempts = [
        replace(attempt, arm=arms[name][attempt.arm])
        for name, one in judged.items()
        for trials in one.trials.values()
        for trial in trials.values()
        for attempt in attempts_of(trial, one.verdicts)
    ]
    write_attempts(folder / ATTEMPTS_KIND, attempts)
    write_study(folder, study, series, problems)
    page = Page(
        title="synthesis against votes",
        paper=PAPER,
        notes=(NOTE,),
        figures_by="model",
        first_tables=gate_tables(study),
        tables=further_tables(study),
        examples=_examples(problems, judged, limit=params.report.num_examples),
    )
    write_page(folder / REPORT_NAME, study, page)
    return study


def draw_trials(  # noqa: PLR0913 - what is drawn and where
    model: str,
    problems: Sequence[Problem],
    folder: pathlib.Path,
    params: Params,
    *,
    place: int,
    strategies: Sequence[Strategy],
    replaces: bool,
    moved: Callable[[int], None],
) -> dict[str, dict[str, Trial]]:
    """The trials of one model, by problem and strategy; those in ``folder`` are read.

    The model has ``place``, from 0, among all that are compared; ``moved`` is called with finished trials. Errors as of
    `evaluate_models`.
    """
    kind = {"kind": problems[0].kind.name} if problems[0].kind.votable else {}
    params = params.model_copy(update={"pacore": params.pacore.model_copy(update=kind)})
    with started_engine(
        model,
        params.serve,
        log_folder=folder / "logs",
        batch_size=params.pacore.batch_size,
    ) as engine:
        journal = open_journal(
            folder / f"trials-{place + 1}.jsonl",
            key=_key(engine, problems, params),
            replaces_other=replaces,
        )
        trials = {name: read_trial(piece) for name, piece in journal.pieces.items()}

        def keep(strategy: Strategy, solution: Solution) -> None:
            trial = make_trial(strategy, solution)
            trials[trial.name] = trial
            # A failed call is asked again by the next command.
            if trial.is_complete:
                journal.add(trial.name, trial.row())

        def solve(some: Sequence[Strategy], asked: Mapping[str, Question]) -> None:
            """Plain paths are the first rounds of strategies: drawn once for a group."""
            for group in split(problems, params.pacore.problems_together):
                shared = replace(setting, memory={})
                for strategy in some:
                    _solve_group(
                        strategy, [asked[one.id] for one in group], trials, engine, shared, keep
                    )
                    moved(len(trials))

        moved(len(trials))
        with open_setting(engine, params.pacore, params.verify, seed=params.seed) as setting:
            chat_format = require_chat_format(engine.chat_format, model)
            questions = {
                problem.id: Question(
                    id=problem.id,
                    conversation=conversation(problem, chat_format),
                )
                for problem in problems
            }
            check_lengths(questions.values(), setting)
            solve([one for one in strategies if not one.reads_others], questions)
            others = [one for one in strategies if one.reads_others]
            solve(others, _with_other_paths(questions, trials) if others else {})
    return {
        problem.id: {
            strategy.name: trials[strategy.trial_name(problem.id)] for strategy in strategies
        }
        for problem in problems
    }


def _solve_group(
    strategy: Strategy,
    questions: Sequence[Question],
    trials: Mapping[str, Trial],
    engine: ChatModel,
    shared: Setting,
    keep: Callable[[Strategy, Solution], None],
) -> None:
    solve_all(
        engine,
        [
            replace(one, responses=one.responses[: strategy.plan[0].width])
            for one in questions
            if strategy.trial_name(one.id) not in trials
        ],
        _setting_of(strategy, shared),
        together=len(questions),
        on_solved=partial(keep, strategy),
    )


def _with_other_paths(
    questions: Mapping[str, Question], trials: Mapping[str, Trial]
) -> dict[str, Question]:
    """The questions, each with the plain paths of the next one."""
    names = [*questions]
    found = {}
    for name, other in zip(names, [*names[1:], *names[:1]], strict=True):
        [paths] = trials[f"{PLAIN}: {other}"].rounds
        texts = [path.text for path in paths if path.text is not None]
        found[name] = replace(questions[name], responses=texts or [""])
    return found


def _setting_of(strategy: Strategy, shared: Setting) -> Setting:
    setting = replace(shared, plan=strategy.plan, early_stop=strategy.early_stop)
    if not strategy.is_greedy:
        return setting
    last = replace(shared.last_decoding, temperature=0.0)
    # The last call of one round is drawn as a first one.
    first = last if len(strategy.plan) == 1 else shared.decoding
    return replace(setting, decoding=first, last_decoding=last)


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
        verdicts = judge_texts(
            (
                (problem, path.text)
                for problem in problems
                for trial in trials[problem.id].values()
                for path in itertools.chain.from_iterable(trial.rounds)
                if path.text is not None
            ),
            verifier,
        )
        parts = _parts(problems, trials, params, workers=workers)
        found = {
            problem.id: judged_problem(problem, trials[problem.id], verdicts, verifier, parts)
            for problem in problems
        }
    return _Judged(trials=trials, verdicts=verdicts, problems=found)


def _parts(
    problems: Sequence[Problem],
    trials: Mapping[str, Mapping[str, Trial]],
    params: Params,
    *,
    workers: int,
) -> PartsOf:
    """The parts of texts, if the verifier is of a task that checks them."""
    task = task_in(params.prepare) if params.verify.of_task else None
    if task is None or PARTS not in names_of(task):
        return {}
    texts = ((one, text) for one in problems for text in texts_in_parts(trials[one.id]))
    return check_parts(task, texts, params.verify.own, workers=workers)


def _unclaimed(models: Mapping[str, str], study: Study) -> dict[str, str]:
    """The models that the first difference is not of; the claims have a sentence on the training of the others."""
    first = study.differences[0]
    settings = [one.settings for one in study.arms if one.name in {first.arm, first.reference}]
    claimed = {one["model"] for one in settings}
    return {name: model for name, model in models.items() if name not in claimed}


def _examples(
    problems: Sequence[Problem], judged: Mapping[str, _Judged], *, limit: int
) -> list[Example]:
    """At most ``limit`` problems, evenly spread, with all rounds of each model, by its name."""
    count = min(limit, len(problems))
    chosen = [problems[index * len(problems) // count] for index in range(count)]
    return [
        Example(
            id=problem.id,
            question=problem.question,
            gold=problem.kind.show_gold(problem.gold),
            groups=[
                group
                for model, one in judged.items()
                for name, trial in one.trials[problem.id].items()
                if name != PLAIN
                for group in _rounds(trial, one.verdicts, model if len(judged) > 1 else "")
            ],
        )
        for problem in chosen
    ]


def _rounds(trial: Trial, verdicts: TextVerdicts, model: str) -> Iterator[ShownTexts]:
    for place, paths in enumerate(trial.rounds, start=1):
        yield ShownTexts(
            title=f"{trial.strategy}{model and f' of {model}'}: round {place}",
            texts=[
                _shown(number, path, is_right(trial.problem_id, path, verdicts))
                for number, path in enumerate(paths, start=1)
            ],
        )


def _shown(number: int, path: TrialPath, right: bool | None) -> ShownText:  # noqa: FBT001 - a verdict
    references = ", ".join(str(place + 1) for place in path.references)
    return ShownText(
        text="the call failed" if path.text is None else path.text,
        outcome="discarded" if right is None else "correct" if right else "wrong",
        about=(f"path {number}", *([f"references {references}"] if references else [])),
    )
