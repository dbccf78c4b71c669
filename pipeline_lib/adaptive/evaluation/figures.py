"""Rows of rollouts, and the figures of models: accuracy, claims, token counts, paired differences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from pipeline_lib.adaptive.countdown.claims import is_right
from pipeline_lib.adaptive.countdown.lines import read_result
from pipeline_lib.adaptive.rollout import Event, Role, Rollout
from pipeline_lib.adaptive.rollouts import rollout_row
from pipeline_lib.evaluation.statistics.intervals import score_interval, wilson_interval
from pipeline_lib.evaluation.statistics.paired import PairedDifference, paired_difference
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Interval
from pipeline_lib.seeding import child_seed

Row = dict[str, Any]
TOKEN_COUNTS = ("drawn", "critical", "total", "longest")


def evaluated_row(rollout: Rollout, gold: CountdownGold) -> Row:
    """A row of rollouts.jsonl: as of `rollout_fun`, with names, counts, and without token ids.

    Ids and log-probabilities are left out: engines round differently, and the file is compared.
    """
    plain = rollout_row(rollout, gold)
    for sequence in plain["seqs"]:
        sequence.pop("output_ids", None)
        sequence.pop("logprobs", None)
    results = [read_result(one.output) for one in rollout.sequences if one.role is Role.CHILD]
    return {
        "problem_id": rollout.root.problem_id,
        "sample": rollout.root.sample,
        **plain,
        "any_child_right": any(is_right(gold, result) for result in results),
        "end": rollout.end.value,
        "tokens": {
            "drawn": rollout.cost.completion_tokens,
            "critical": rollout.cost.critical_tokens,
            "total": rollout.total_tokens,
            "longest": rollout.longest_tokens,
        },
        "events": {event.value: count for event, count in sorted((+rollout.events).items())},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFigures:
    """Figures of one model; means are over rollouts that did not fail."""

    name: str
    kind: str
    condition: str
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

    def row(self) -> Row:
        """As in metrics.json."""
        return {
            "name": self.name,
            "kind": self.kind,
            "condition": self.condition,
            "problems": self.problems,
            "rollouts": self.rollouts,
            "failed": self.failed,
            "accuracy": _bounds(self.accuracy),
            "any_sample_upper_bound": self.any_sample,
            "any_child_right": self.any_child_right,
            "claims": self.claims,
            "false_claims": self.false_claims,
            **{f"{name}_tokens": self.tokens[name] for name in TOKEN_COUNTS},
            "events": dict(self.events),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two models on the same problems."""

    base: str
    model: str
    problems: int
    difference: PairedDifference

    def row(self) -> Row:
        """As in metrics.json; the difference is ``model`` minus ``base``."""
        return {
            "model": self.model,
            "base": self.base,
            "problems": self.problems,
            "difference": _bounds(self.difference.interval),
            "p_value": self.difference.p_value,
            "finding": self.difference.finding.value,
        }


def model_figures(
    name: str, kind: str, condition: str, rows: Sequence[Row], params: EvaluateParams, *, seed: int
) -> ModelFigures:
    """The figures of one model. At least one rollout must not have failed."""
    whole = [row for row in rows if "error" not in row]
    scores = problem_scores(rows)
    claims = [row for row in whole if row["claim"] is not None]
    return ModelFigures(
        name=name,
        kind=kind,
        condition=condition,
        problems=len(scores),
        rollouts=len(rows),
        failed=len(rows) - len(whole),
        accuracy=_accuracy(scores, rows, params, seed=seed),
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
    )


def problem_scores(rows: Sequence[Row]) -> dict[str, float]:
    """The share of right rollouts by problem; problems of which all rollouts failed are left out."""
    right: dict[str, list[bool]] = {}
    for row in rows:
        if "error" not in row:
            right.setdefault(row["problem_id"], []).append(row["is_correct"])
    return {name: float(np.mean(values)) for name, values in right.items()}


def compare_models(
    rows: Mapping[str, Sequence[Row]], params: EvaluateParams, *, seed: int
) -> list[Comparison]:
    """Each model minus each one before it, on the problems that both have."""
    scores = {name: problem_scores(own) for name, own in rows.items()}
    found = []
    for base, model in combinations(rows, 2):
        names = [name for name in scores[base] if name in scores[model]]
        if names:
            difference = paired_difference(
                np.array([scores[base][name] for name in names]),
                np.array([scores[model][name] for name in names]),
                resamples=params.resamples,
                level=params.confidence_level,
                seed=child_seed(seed, "apr", "paired", base, model),
            )
            found.append(
                Comparison(base=base, model=model, problems=len(names), difference=difference)
            )
    return found


def _accuracy(
    scores: Mapping[str, float], rows: Sequence[Row], params: EvaluateParams, *, seed: int
) -> Interval:
    values = np.array([*scores.values()])
    if all(row["sample"] == 0 for row in rows):
        return wilson_interval(int(values.sum()), len(values), level=params.confidence_level)
    return score_interval(
        values,
        resamples=params.resamples,
        level=params.confidence_level,
        seed=child_seed(seed, "apr", "accuracy"),
    )


def _bounds(interval: Interval) -> Row:
    return {"value": interval.value, "low": interval.low, "high": interval.high}
