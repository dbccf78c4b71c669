"""Disjoint bootstrap, train and test problems of a data set.

Problems are ordered by seed and id alone, so a larger split contains the smaller one of the same seed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.kind import GoldProblem
from pipeline_lib.own.code import Source
from pipeline_lib.params.evaluate import EvaluationSet
from pipeline_lib.params.paths import PrepareParams
from pipeline_lib.problems import countdown, hops, word_problems
from pipeline_lib.problems.loading import (
    find_data_set,
    load_evaluation_set,
    load_splits,
    source_of,
    task_in,
)
from pipeline_lib.problems.overlap import OverlapReport, normalized_question, overlap_report
from pipeline_lib.problems.own_task import task_problems, with_prompts
from pipeline_lib.records import Problem, Row
from pipeline_lib.seeding import child_seed


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReport:
    """Counts of loaded, removed and drawn problems, with the reasons for removal."""

    loaded: Mapping[str, int]
    """Problems by official split; empty for a generated data set."""
    duplicates: int
    """Removed problems: repeats within a split, and known repeats of test problems in train."""
    unusable_golds: tuple[Row, ...]
    """``problem_id`` and ``reason`` of problems that were removed because their gold cannot be verified against."""
    wanted: Mapping[str, int]
    drawn: Mapping[str, int]
    """Below ``wanted`` if the data set is too small."""
    overlap: OverlapReport
    unseen_number_sets: int | None
    """Countdown: test problems whose numbers occur in no training split; None for other data."""
    unseen_templates: int | None
    """Word problems: test problems whose template occurs in no training split; None for other data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits:
    """Problems for the base policy, for the loop, and for evaluation."""

    bootstrap: tuple[Problem, ...]
    train: tuple[Problem, ...]
    test: tuple[Problem, ...]
    report: SplitReport


def make_splits(params: PrepareParams, *, seed: int, gold_problem: GoldProblem) -> Splits:
    """Draw the three splits.

    Countdown, word problems and look-ups are generated. Other data sets keep their official train and test splits if
    they have both; otherwise their one split is divided, in the wanted proportion if it is too small. The test split
    holds whole ARC puzzles. The bootstrap split is taken from the problems that the train split leaves,
    of which there may be none. Problems with a reason by ``gold_problem`` are removed and counted.

    Raises:
        BadInputError: the data is unusable, a split is empty, or train and test overlap.
    """
    wanted = {
        "test": params.test_problems,
        "train": params.train_problems,
        "bootstrap": params.bootstrap_problems,
    }
    removed: dict[str, Any] = {"loaded": {}, "duplicates": 0, "unusable_golds": ()}
    is_countdown = params.dataset == countdown.NAME
    is_words = params.dataset == word_problems.NAME
    if is_countdown:
        drawn = countdown.splits(params.countdown, seed=seed, counts=wanted)
    elif is_words:
        drawn = word_problems.splits(params.word_problems, seed=seed, counts=wanted)
    elif params.dataset == hops.NAME:
        drawn = hops.splits(params.hops, seed=seed, counts=wanted)
    elif task := task_in(params):
        drawn, removed = _of_task(task, wanted, seed)
    else:
        pools, removed = _clean(params, gold_problem)
        drawn = _divide(params, pools, wanted, seed)
    drawn = {split: with_prompts(some, params.prompt) for split, some in drawn.items()}
    test, training = drawn["test"], [*drawn["train"], *drawn["bootstrap"]]
    return Splits(
        bootstrap=tuple(drawn["bootstrap"]),
        train=tuple(drawn["train"]),
        test=tuple(test),
        report=SplitReport(
            **removed,
            wanted=wanted,
            drawn={name: len(problems) for name, problems in drawn.items()},
            overlap=overlap_report(training, test),
            unseen_number_sets=countdown.unseen_number_sets(test, training)
            if is_countdown
            else None,
            unseen_templates=word_problems.unseen_templates(test, training) if is_words else None,
        ),
    )


_SPARE = 2
"""Rows that are asked of a task per wanted problem, as some may repeat others."""


def _of_task(
    task: Source, wanted: Mapping[str, int], seed: int
) -> tuple[dict[str, list[Problem]], dict[str, Any]]:
    """Problems of a task by split, in its order, each question in one split; and the fields of a `SplitReport`."""
    found = task_problems(task, {split: _SPARE * n for split, n in wanted.items()}, seed=seed)
    drawn: dict[str, list[Problem]] = {}
    seen: set[str] = set()
    repeated = 0
    for split in (one for one in ("test", "train", "bootstrap") if one in wanted):
        drawn[split] = []
        for problem in found.get(split, []):
            question = normalized_question(problem.question)
            if question in seen:
                repeated += 1
            elif len(drawn[split]) < wanted[split]:
                drawn[split].append(problem)
                seen.add(question)
        if not drawn[split] and split != "bootstrap":
            raise BadInputError(f"{task.name}: problems({split!r}, {seed}) gives none of its own")
    return drawn, {"loaded": {}, "duplicates": repeated, "unusable_golds": ()}


def split_notes(report: Mapping[str, Any], *, section: str = "prepare") -> dict[str, str]:
    """A sentence for each split of a `SplitReport`, as a mapping, that is smaller than wanted."""
    wanted, loaded = report["wanted"], report["loaded"]
    why = ""
    if len(loaded) == 1:  # see `_divide`
        why = (
            f": its {sum(loaded.values())} problems are divided by train_problems={wanted['train']} and "
            f"test_problems={wanted['test']}; lower {section}.train_problems for more test problems"
        )
    return {
        split: f"{section}.{split}_problems={wanted[split]}: the data set leaves {drawn} for this split{why}"
        for split, drawn in report["drawn"].items()
        if drawn < wanted[split]
    }


def _load(params: PrepareParams) -> dict[str, list[Problem]]:
    source, most = source_of(params.dataset, params.source), params.max_steps
    return {
        # GSM8K marks calculations as in <<48/2=24>>.
        split: [p for p in problems if most is None or (p.solution or "").count("<<") <= most]
        for split, problems in load_splits(params.dataset, source, params).items()
    }


def _clean(
    params: PrepareParams, gold_problem: GoldProblem
) -> tuple[dict[str, list[Problem]], dict[str, Any]]:
    """Usable problems by official split, and the fields of a `SplitReport` on the removed ones."""
    loaded, known_repeats = _load(params), find_data_set(params.dataset).known_repeats
    pools: dict[str, list[Problem]] = {}
    duplicates = 0
    unusable: list[Row] = []
    asked = {normalized_question(problem.question) for problem in loaded.get("test", ())}
    for split in loaded.keys() & {"train", "test"}:
        first_of: dict[str, Problem] = {}
        for problem in loaded[split]:
            first_of.setdefault(normalized_question(problem.question), problem)
        distinct = [
            problem
            for question, problem in first_of.items()
            if split != "train" or problem.id not in known_repeats or question not in asked
        ]
        duplicates += len(loaded[split]) - len(distinct)
        pools[split], faults = _by_gold(distinct, gold_problem)
        unusable += faults
    return pools, {
        "loaded": {split: len(problems) for split, problems in loaded.items()},
        "duplicates": duplicates,
        "unusable_golds": tuple(sorted(unusable, key=lambda row: row["problem_id"])),
    }


def _by_gold(
    problems: Sequence[Problem], gold_problem: GoldProblem
) -> tuple[list[Problem], list[Row]]:
    """The usable problems, and the id and reason of each other one."""
    reasons = {problem.id: gold_problem(problem.gold) for problem in problems}
    return [one for one in problems if reasons[one.id] is None], [
        {"problem_id": name, "reason": reason} for name, reason in reasons.items() if reason
    ]


def evaluation_problems(
    params: EvaluationSet, *, seed: int, gold_problem: GoldProblem
) -> tuple[list[Problem], list[Row]]:
    """Problems of a data set that is only evaluated on, and the ones left out, with ``problem_id`` and ``reason``.

    They are the test split, or the whole data set if it has none. A larger set contains the smaller one of the
    same seed.

    Raises:
        BadInputError: the data is unusable, or no gold can be verified against.
    """
    if task := task_in(params):
        where = f"evaluate.sets: {params.dataset}"
        if not task.given:
            raise BadInputError(f"{where} is a task of your own; give it as prepare.dataset")
        if params.problems is None:
            raise BadInputError(f"{where} may have no end; give its number of problems")
        return _of_task(task, {"test": params.problems}, seed)[0]["test"], []
    source = source_of(params.dataset, params.source, key=f"source of {params.dataset}")
    usable, unusable = _by_gold(load_evaluation_set(params.dataset, source, params), gold_problem)
    problems = _take_units(_ordered(usable, seed), params.problems or len(usable))
    if not problems:
        raise BadInputError(f"{source}: no problem of {params.dataset} has a usable gold")
    return problems, unusable


def _ordered(problems: Sequence[Problem], seed: int) -> list[Problem]:
    return sorted(problems, key=lambda p: (child_seed(seed, "split", _unit(p)), p.id))


def _divide(
    params: PrepareParams, pools: Mapping[str, list[Problem]], wanted: Mapping[str, int], seed: int
) -> dict[str, list[Problem]]:
    ordered = {split: _ordered(pool, seed) for split, pool in pools.items()}
    if len(ordered) == 2:
        _refuse_overlap(params, ordered["train"], ordered["test"])
        test, rest = _take_units(ordered["test"], wanted["test"]), ordered["train"]
    else:
        pool = next(iter(ordered.values()), [])
        both = wanted["train"] + wanted["test"]
        share = max(1, round(len(pool) * wanted["test"] / both))
        test = _take_units(pool, wanted["test"] if both <= len(pool) else share)
        rest = pool[len(test) :]
    train = rest[: wanted["train"]]
    if not train or not test:
        raise BadInputError(
            f"{params.source}: {len(train)} train and {len(test)} test problems of "
            f"{params.dataset} are left after removing duplicates and unusable golds; "
            "both are needed"
        )
    bootstrap = rest[len(train) : len(train) + wanted["bootstrap"]]
    return {"test": test, "train": train, "bootstrap": bootstrap}


def _take_units(ordered: Sequence[Problem], count: int) -> list[Problem]:
    """Up to ``count`` problems, in whole split units (an ARC puzzle is scored as a whole)."""
    divided = set(map(_unit, ordered[count : count + 1]))
    return [problem for problem in ordered[:count] if _unit(problem) not in divided]


def _unit(problem: Problem) -> str:
    return problem.kind.split_unit(problem.id)


def _refuse_overlap(
    params: PrepareParams, train: Sequence[Problem], test: Sequence[Problem]
) -> None:
    asked = {normalized_question(problem.question): problem for problem in test}
    shared = [
        (problem, asked[question])
        for problem in train
        if (question := normalized_question(problem.question)) in asked
    ]
    if shared:
        first, tested = min(shared, key=lambda pair: pair[0].id)
        raise BadInputError(
            f"{params.source}: {len(shared)} train problems are test problems too (first: {first.id} at "
            f"{first.where} is {tested.id} at {tested.where}); remove them from the train file"
        )
