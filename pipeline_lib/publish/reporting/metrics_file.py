"""The content of reports/metrics.json, deterministic except for its seconds and memory, and of summary.json."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pipeline_lib.publish.reporting.run_compute import RunCompute
from pipeline_lib.study.comparison import Comparison
from pipeline_lib.study.result import EvaluationResult, FurtherResults
from pipeline_lib.study.statistics.paired import PairedDifference
from pipeline_lib.study.summary import EvalSummary

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """Prompt and completion tokens of a stage."""

    prompt: int
    completion: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCosts:
    """Time, tokens and memory of a run by stage; stages may overlap."""

    seconds: Mapping[str, float]
    total_seconds: float
    """Seconds in which any stage ran."""
    tokens: Mapping[str, TokenCount]
    peaks_mib: Mapping[str, int]
    """Peak memory of the largest process."""


def build_metrics(
    result: EvaluationResult,
    *,
    costs: StageCosts,
    spent: RunCompute,
    unseen_number_sets: int | None,
) -> Figures:
    """All metrics of a run as JSON values.

    Args:
        result: result of the evaluation.
        costs: time, tokens and memory by stage.
        spent: compute of loop and control.
        unseen_number_sets: held-out problems whose numbers occur in no training problem; None if
            the data set is not Countdown.
    """
    return {
        **_compared(result),
        "num_problems": result.comparison.num_problems,
        "num_unseen_number_sets": unseen_number_sets,
        "compute": asdict(spent),
        "seconds": {**costs.seconds, "total": costs.total_seconds},
        "peak_mib": dict(costs.peaks_mib),
        "tokens": {
            stage: {"prompt": count.prompt, "completion": count.completion}
            for stage, count in costs.tokens.items()
        },
    }


def build_summary(result: EvaluationResult) -> Figures:
    """The few figures that experiments are compared by, as a flat mapping; deterministic."""
    against, over = (
        ("base", result.comparison)
        if result.over_control is None
        else ("control", result.over_control)
    )
    gain, strict = over.strict[1], result.trained.strict
    return {
        **{f"pass_at_{k}": strict[k].value for k in sorted({1, max(strict)})},
        **{
            f"{name}_pass_at_1": summary.strict[1].value
            for name, summary in result.summaries.items()
            if name != "trained"
        },
        f"gain_over_{against}": gain.interval.value,
        "p_value": gain.p_value,
        "truncated_fraction": result.trained.truncated_fraction,
        "mean_completion_tokens": result.trained.mean_completion_tokens,
    }


def build_further_metrics(further: FurtherResults) -> Figures:
    """Metrics at further temperatures and of baselines; empty without any."""
    temperatures = {
        f"{value:g}": _compared(result) for value, result in further.temperatures.items()
    }
    baselines = [
        {
            "name": baseline.name,
            "temperature": baseline.temperature,
            "scores": _policy(baseline.summary),
            "paired": _paired(baseline.comparison),
        }
        for baseline in further.baselines
    ]
    found = {"temperatures": temperatures, "baselines": baselines}
    return {name: value for name, value in found.items() if value}


def _compared(result: EvaluationResult) -> Figures:
    control, over = result.control, result.over_control
    return {
        "base": _policy(result.base),
        "control": _policy(control) if control is not None else None,
        "trained": _policy(result.trained),
        "paired": _paired(result.comparison),
        "paired_control": _paired(over) if over is not None else None,
    }


def _policy(summary: EvalSummary) -> Figures:
    majority = summary.majority
    return {
        **{f"pass_at_{k}": found.row() for k, found in summary.strict.items()},
        "lenient": {f"pass_at_{k}": found.row() for k, found in summary.lenient.items()},
        **({f"majority_at_{max(summary.ks)}": majority.row()} if majority else {}),
        "single_sample": summary.single.row(),
        "truncated_fraction": summary.truncated_fraction,
        "mean_completion_tokens": summary.mean_completion_tokens,
        "statuses": {status.value: count for status, count in summary.statuses.items()},
        "verifier_failures": summary.num_unscored,
        "num_problems": summary.num_problems,
        "num_left_out": summary.num_left_out,
    }


def _paired(comparison: Comparison) -> Figures:
    further = {k: found for k, found in comparison.strict.items() if k != 1}
    single = comparison.single
    return {
        "difference": _found(comparison.strict[1]),
        **{f"pass_at_{k}": _found(found) for k, found in further.items()},
        "lenient": {f"pass_at_{k}": _found(found) for k, found in comparison.lenient.items()},
        "format_share": _found(comparison.format_share),
        "single_sample": {
            "only_base": single.only_base,
            "only_trained": single.only_trained,
            "p_value": single.p_value,
        },
        "num_gained": len(comparison.gained),
        "num_lost": len(comparison.lost),
        "num_unpaired": comparison.num_unpaired,
    }


def _found(found: PairedDifference) -> Figures:
    return {
        **found.interval.row(),
        "p_value": found.p_value,
        "finding": found.finding.value,
    }
