"""The figures of a model under one condition and temperature: accuracy, claims, tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Interval
from pipeline_lib.seeding import child_seed
from pipeline_lib.study.statistics.intervals import score_interval, wilson_interval
from pipeline_lib.systems.apr.evaluation.votes import VoteFigures, vote_curve
from pipeline_lib.systems.apr.rollout import Event
from pipeline_lib.systems.apr.rollouts import Row

TOKEN_COUNTS = ("drawn", "critical", "total", "longest")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSetting:
    """A model, the condition of its prompts, and the temperature of its draws."""

    name: str
    kind: str
    """``parallel`` or ``serial``."""
    condition: str
    """Empty without one."""
    temperature: float

    @property
    def label(self) -> str:
        """For titles: ``parallel, Sub Call Budget: 9, T = 0``."""
        named = [self.name, *filter(None, [self.condition])]
        return ", ".join([*named, f"T = {self.temperature:g}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRows:
    """The rows of all rollouts of one setting, in the order of the problems."""

    setting: ModelSetting
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFigures:
    """Figures of one setting; means are over rollouts that did not fail."""

    setting: ModelSetting
    problems: int
    rollouts: int
    failed: int
    """Rollouts whose parent failed; they are no part of any other figure."""
    accuracy: Interval
    """Mean over problems of the share of right rollouts."""
    any_sample: float
    """Share of problems with a right rollout: an upper bound for a choice among the samples."""
    any_child_right: float
    claims: float
    """Share of rollouts that claim a solution."""
    false_claims: float
    """Share of the claims that are wrong."""
    tokens: Mapping[str, float]
    """Means, by the names of `TOKEN_COUNTS`."""
    events: Mapping[str, float]
    """Means."""
    votes: Sequence[VoteFigures]
    """By the number of samples; empty with one sample of each problem."""

    def row(self) -> Row:
        """As in metrics.json."""
        return {
            **asdict(self.setting),
            "problems": self.problems,
            "rollouts": self.rollouts,
            "failed": self.failed,
            "accuracy": self.accuracy.row(),
            "any_sample_upper_bound": self.any_sample,
            "any_child_right": self.any_child_right,
            "claims": self.claims,
            "false_claims": self.false_claims,
            **{f"{name}_tokens": self.tokens[name] for name in TOKEN_COUNTS},
            "events": dict(self.events),
            "votes": [
                {
                    "samples": one.samples,
                    "problems": one.problems,
                    "consensus": one.consensus.row(),
                    "pass_upper_bound": one.any_sample.row(),
                    "drawn_tokens": one.drawn_tokens,
                    "critical_tokens": one.critical_tokens,
                }
                for one in self.votes
            ],
        }


def model_figures(drawn: DrawnRows, params: EvaluateParams, *, seed: int) -> ModelFigures:
    """The figures of one setting. At least one rollout must not have failed."""
    whole = [row for row in drawn.rows if "error" not in row]
    scores = problem_scores(drawn.rows)
    claims = [row for row in whole if row["claim"] is not None]
    return ModelFigures(
        setting=drawn.setting,
        problems=len(scores),
        rollouts=len(drawn.rows),
        failed=len(drawn.rows) - len(whole),
        accuracy=_accuracy(scores, drawn.rows, params, seed=seed),
        any_sample=float(np.mean([score > 0 for score in scores.values()])),
        any_child_right=float(np.mean([row["any_child_right"] for row in whole])),
        claims=len(claims) / len(whole),
        false_claims=float(np.mean([not row["is_correct"] for row in claims])) if claims else 0.0,
        tokens={
            name: float(np.mean([row["tokens"][name] for row in whole])) for name in TOKEN_COUNTS
        },
        events={
            event.value: float(np.mean([row["events"].get(event.value, 0) for row in whole]))
            for event in Event
        },
        votes=vote_curve(drawn.rows, params, seed=seed),
    )


def problem_scores(rows: Sequence[Row]) -> dict[str, float]:
    """The share of right rollouts by problem; problems of which all rollouts failed are left out."""
    right: dict[str, list[bool]] = {}
    for row in rows:
        if "error" not in row:
            right.setdefault(row["problem_id"], []).append(row["is_correct"])
    return {name: float(np.mean(values)) for name, values in right.items()}


def best_conditions(models: Sequence[ModelFigures]) -> list[ModelFigures]:
    """The most accurate condition of each model and temperature with several."""
    groups: dict[tuple[str, float], list[ModelFigures]] = {}
    for one in models:
        groups.setdefault((one.setting.name, one.setting.temperature), []).append(one)
    return [most_accurate(group) for group in groups.values() if len(group) > 1]


def most_accurate(models: Sequence[ModelFigures]) -> ModelFigures:
    """Of equally accurate ones the one with the shortest critical path."""
    return max(models, key=lambda one: (one.accuracy.value, -one.tokens["critical"]))


def _accuracy(
    scores: Mapping[str, float], rows: Sequence[Row], params: EvaluateParams, *, seed: int
) -> Interval:
    values = np.array([*scores.values()])
    if all(row["sample"] == 0 for row in rows):
        return wilson_interval(int(values.sum()), len(values), level=params.confidence_level)
    return score_interval(values, params, seed=child_seed(seed, "apr", "accuracy"))
