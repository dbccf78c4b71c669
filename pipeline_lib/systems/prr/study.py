"""The study of an evaluation: rules that select one of K branches, beside the one branch of a control; and its page.

An example of the test split is a problem, its K branches are attempts. They are right by the label (``accuracy``) and,
where all right answers are known, by any of them (``any solution``).
"""

import hashlib
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Row
from pipeline_lib.study.attempts import Attempt, Cost
from pipeline_lib.study.headline import claims_of
from pipeline_lib.study.pages.figures import Plot
from pipeline_lib.study.pages.page import Example, Page, Paper, Section
from pipeline_lib.study.pages.tables import Table, mapping_table
from pipeline_lib.study.pages.training_curves import training_plots
from pipeline_lib.study.study import ALL, Arm, Contrast, Series, Study, arm_names, make_study
from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet
from pipeline_lib.systems.prr.evaluation.answers import (
    ORACLE,
    BranchIndices,
    CoveredRows,
    branch_figures,
    decidable,
    right_by_rule,
)
from pipeline_lib.systems.prr.evaluation.evaluate import EvaluatedSet

Names = npt.NDArray[np.str_]
PICTURES_NAME = "pictures"
SCORER, BRANCHES, CONTROL = "scorer", "branches", "one branch"
_ACCURACY, _ANY = "accuracy", "any solution"
_COMPARED = {_ACCURACY: ("latent", "control"), _ANY: ("latent", "control", "any")}
"""Measures that the control is compared by, with the names of the seed."""
_SELECTING = (SCORER, "confidence")
"""Rules whose picks are judged where some branches are right and some wrong."""
_PAPER = Paper(
    title="Jolicoeur-Martineau 2025, Less is More: Recursive Reasoning with Tiny Networks (TRM), "
    "whose recursion PRR runs in parallel branches",
    url="https://arxiv.org/abs/2510.04871",
)
TRANSDUCTIVE = (
    "Transductive: the demonstrations of the test puzzles are part of the training data, and each puzzle has a "
    "learned vector of its own."
)
_UNSCORED = (
    "The test outputs are secret, so the votes have no pass@k here; the submission is to be judged."
)
_ARC_NOTES = (
    "Each version of a test input counts as a problem, so the intervals are narrower than over puzzles. The votes "
    "of all versions of a test input give its two submitted answers: all counts every branch, scorer and confidence "
    "the branch of each version that they prefer."
)
_SHARES = ("oracle_exact", "scorer_exact", "scorer_picks_best", "scorer_picks_lowest_loss")
_CURVES = (*_SHARES, "diversity", *(f"test_{name}" for name in _SHARES))
_TRAINING = (
    "Shares of each logged batch with the weights of its step, and of a sample of the test split (test) with averaged "
    "weights; picks best: right picks where some branches are right and some wrong; diversity: mean excess of the cosine "
    "of two branches over its margin, 0 if they differ."
)
_FRAMES = (
    "In the pictures of examples a green frame marks an answer that is right at every labelled position, "
    "score is the logit of the scorer, and conf the mean log-probability of the answer."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Results of an evaluation."""

    models: Mapping[str, EvaluatedSet]
    """By name; several vote together on ARC."""
    control: Mapping[str, EvaluatedSet] = field(default_factory=dict)
    """The control by its name; empty without one."""
    arc: Mapping[str, Any] | None = None
    """Figures of the votes, for ARC alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Puzzle:
    """An example of the test split; question and gold are digests of its tokens."""

    id: str
    question: str
    gold: str

    def row(self) -> Row:
        """As the row of a `Problem`."""
        return {"id": self.id, "kind": "puzzle", "question": self.question, "gold": self.gold}


def example_name(place: int) -> str:
    """Name of an example of the test split."""
    return f"example-{place:03d}"


def puzzles(data: PuzzleSet) -> Iterator[Puzzle]:
    """The examples of a set."""
    for place, (input_L, label_L) in enumerate(zip(data.inputs_NL, data.labels_NL, strict=True)):
        question, gold = (hashlib.sha256(one.tobytes()).hexdigest() for one in (input_L, label_L))
        yield Puzzle(id=example_name(place), question=question, gold=gold)


def make_prr_study(
    found: Findings, *, evaluate: EvaluateParams, seed: int, provenance: Mapping[str, str | None]
) -> tuple[Study, list[Series]]:
    """The study and its series; the headline is the scorer of the first model minus the control."""
    models = [model_series(name, one) for name, one in found.models.items()]
    control = [one for name, each in found.control.items() for one in control_series(name, each)]
    series = [*(one for of_model in models for one in of_model), *control]
    study = make_study(
        "prr",
        series,
        _contrasts(models[0], control),
        evaluate=evaluate,
        seed=seed,
        provenance=provenance,
        left_out={"the answer is secret": next(iter(found.models.values())).judged.unlabelled},
        compute={
            "models": {
                name: {"core passes": one.core_passes, **branch_figures(one.judged)}
                for name, one in {**found.models, **found.control}.items()
            },
            **({} if found.arc is None else {"arc": found.arc}),
        },
    )
    return study.with_claims([*claims_of(study), *_sentences(found)]), series


def model_series(name: str, found: EvaluatedSet) -> list[Series]:
    """Accuracy of each rule and of the mean branch, picks where branches differ, coverage of the right answers."""
    rows, arm = found.judged, partial(_arm, name, found)
    names_B, right, decidable_B = _names(rows.places_B), right_by_rule(rows), decidable(rows)
    return [
        *(_share(arm(rule), _ACCURACY, names_B, right_B) for rule, right_B in right.items()),
        _mean(arm(BRANCHES), _ACCURACY, names_B, rows.right_BK.mean(1)),
        *(
            _share(arm(rule), "picks best", names_B[decidable_B], right[rule][decidable_B])
            for rule in _SELECTING
        ),
        *([] if found.covered is None else _coverage(found.covered, arm)),
    ]


def control_series(name: str, found: EvaluatedSet) -> list[Series]:
    """The one branch; of several rollouts the one that its scorer prefers."""
    return [
        replace(one, arm=_arm(name, found, CONTROL))
        for one in model_series(name, found)
        if one.arm.base == SCORER and one.measure in _COMPARED and one.subset == ALL
    ]


def _contrasts(model: Sequence[Series], control: Sequence[Series]) -> list[Contrast]:
    """The scorer's pick minus the one branch."""
    return [
        Contrast(candidate=one, reference=reference, seed_names=_COMPARED[reference.measure])
        for reference in control
        for one in model
        if (one.arm.base, one.measure, one.subset) == (SCORER, reference.measure, ALL)
    ]


def _coverage(rows: CoveredRows, arm: Callable[[str], Arm]) -> Iterator[Series]:
    """Of all examples, and by number of right answers where it varies."""
    counts, names_B = np.unique(rows.answers_B).tolist(), _names(np.arange(len(rows.answers_B)))
    parts = {ALL: rows.answers_B > 0}
    if len(counts) > 1:
        parts |= {f"right answers: {count}": rows.answers_B == count for count in counts}
    right, all_found_B = right_by_rule(rows), (rows.found_B == 1).astype(np.float64)
    for subset, of_B in parts.items():
        names, branches = names_B[of_B], arm(BRANCHES)
        for rule, right_B in right.items():
            yield _share(arm(rule), _ANY, names, right_B[of_B], subset)
        yield _mean(branches, _ANY, names, rows.right_BK.mean(1)[of_B], subset)
        yield _mean(branches, "solutions found", names, rows.found_B[of_B], subset)
        yield _share(branches, "all solutions found", names, all_found_B[of_B], subset)


def _arm(name: str, found: EvaluatedSet, base: str) -> Arm:
    branches = found.judged.right_BK.shape[1]
    settings = {"model": name, "branches": branches, "core passes": found.core_passes}
    return Arm(base=base, settings=settings, upper_bound=base == ORACLE)


def _names(places_B: BranchIndices) -> Names:
    return np.array([example_name(place) for place in places_B.tolist()], dtype=np.str_)


def _share(arm: Arm, measure: str, names_B: Names, right_B: Any, subset: str = ALL) -> Series:
    return replace(_mean(arm, measure, names_B, right_B, subset), is_binomial=True)


def _mean(arm: Arm, measure: str, names_B: Names, values_B: Any, subset: str = ALL) -> Series:
    values = dict(zip(names_B.tolist(), values_B.astype(np.float64).tolist(), strict=True))
    seed_names = ("latent", arm.base, measure, subset)
    return Series(arm=arm, measure=measure, values=values, seed_names=seed_names, subset=subset)


def attempts(found: Findings, series: Sequence[Series]) -> Iterator[Attempt]:
    """Every branch of every labelled example, with the logit of the scorer and the confidence."""
    names = arm_names([one.arm for one in series])
    for base, sets in ((BRANCHES, found.models), (CONTROL, found.control)):
        for name, one in sets.items():
            rows, arm = one.judged, _arm(name, one, base)
            arm_name = names[base, tuple(sorted(arm.settings.items()))]
            for row, place in enumerate(rows.places_B.tolist()):
                for branch, right in enumerate(rows.right_BK[row].tolist()):
                    yield Attempt(
                        problem_id=example_name(place),
                        arm=arm_name,
                        sample=branch,
                        right=right,
                        cost=Cost(),
                        extra={
                            "logit": float(rows.scores_BK[row, branch]),
                            "confidence": float(rows.confidences_BK[row, branch]),
                        },
                    )


def _sentences(found: Findings) -> Iterator[str]:
    first = next(iter(found.models.values()))
    for control in found.control.values():
        yield (
            f"An answer takes {first.core_passes:g} core passes with all branches, and {control.core_passes:g} with "
            "the one branch of the control."
        )
    if found.arc is not None:
        yield TRANSDUCTIVE
        if not found.arc["scored puzzles"]:
            yield _UNSCORED


def figure_tables(study: Study) -> list[Table]:
    """Figures of each model and of the votes, besides the study's own."""
    models, arc = study.compute.get("models", {}), study.compute.get("arc")
    tables = [mapping_table(f"Branches of {name}", figures) for name, figures in models.items()]
    return tables if arc is None else [*tables, mapping_table("Votes on ARC", _flat(arc))]


def _flat(figures: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in sorted(figures.items(), key=lambda item: (len(item[0]), item[0])):
        found |= (
            _flat(value, f"{prefix}{name}: ")
            if isinstance(value, Mapping)
            else {f"{prefix}{name}": value}
        )
    return found


def prr_page(
    study: Study, folder: pathlib.Path, *, is_arc: bool, log: Sequence[Mapping[str, float]] = ()
) -> Page:
    """The page, with the pictures of ``folder`` and curves of the training that wrote ``log``."""
    curves = training_plots(log, _CURVES)
    return Page(
        title="parallel latent branches (PRR)",
        paper=_PAPER,
        notes=[_FRAMES, *([_ARC_NOTES] if is_arc else [])],
        tables=figure_tables(study),
        sections=[Section(title="Training", notes=[_TRAINING], plots=curves)] if curves else [],
        examples=[_example(path) for path in sorted((folder / PICTURES_NAME).glob("*.svg"))],
    )


def _example(picture: pathlib.Path) -> Example:
    name = picture.stem
    text = "Input, target, and the answer of each branch"
    svg = picture.read_text("utf-8")
    return Example(id=name, picture=Plot(name=name, title=text, alt=f"{text}, as grids", svg=svg))
