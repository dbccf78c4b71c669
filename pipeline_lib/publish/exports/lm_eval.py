"""Results in the format of lm-evaluation-harness 0.4.

One task with the two scores as two filters. Standard errors are those of a mean over problems, as
in the harness; bootstrap intervals and the paired comparison are under the key ``reasonloop``.

Source: EleutherAI/lm-evaluation-harness, `lm_eval.result_schema` of version 0.4.
"""

from datetime import UTC, datetime
from statistics import stdev
from typing import Any

from pipeline_lib.params.whole import Params
from pipeline_lib.publish.exports.evaluated_policy import EvaluatedPolicy
from pipeline_lib.study.policies import LENIENT
from pipeline_lib.study.study import ALL

REASONLOOP_KEY = "reasonloop"
_FILTERS = {"strict": ALL, "lenient": LENIENT}
"""Names of the scores, and of their subsets in the study."""


def results_name(at: datetime) -> str:
    """File name of the results, as in the harness."""
    return f"results_{at.astimezone(UTC):%Y-%m-%dT%H-%M-%S}.json"


def lm_eval_results(policy: EvaluatedPolicy, params: Params) -> dict[str, Any]:
    """The content of a results file as JSON values."""
    task = policy.dataset
    metrics = [f"pass@{k}" for k in params.evaluate.ks]
    effective = policy.study.point(policy.arm, metrics[0]).n
    return {
        "results": {
            task: {
                "name": task,
                "alias": task,
                "sample_len": effective,
                **_scores(policy, metrics),
            }
        },
        "group_subtasks": {task: []},
        "configs": {task: _config(task, metrics, params)},
        "versions": {task: 1},
        "n-shot": {task: 0},
        "higher_is_better": {task: dict.fromkeys(metrics, True)},
        "n-samples": {
            task: {
                "original": effective + policy.counts.left_out,
                "effective": effective,
            }
        },
        "config": {
            "model": REASONLOOP_KEY,
            "model_args": {"policy": policy.name, "weights": policy.weights},
            "limit": None,
            "bootstrap_iters": params.evaluate.resamples,
            "gen_kwargs": _generation(params),
            "random_seed": params.seed,
        },
        "date": policy.evaluated_at.timestamp(),
        "model_source": REASONLOOP_KEY,
        "model_name": f"{policy.name}-{policy.weights}",
        "model_name_sanitized": f"{policy.name}-{policy.weights}",
        REASONLOOP_KEY: {
            "intervals": _intervals(policy, metrics),
            "paired_difference": _differences(policy),
            "lineage": dict(policy.lineage),
        },
    }


def _scores(policy: EvaluatedPolicy, metrics: list[str]) -> dict[str, float | str]:
    """``METRIC,FILTER`` and ``METRIC_stderr,FILTER``; ``N/A`` without a standard error."""
    rows: dict[str, float | str] = {}
    for name, subset in _FILTERS.items():
        for metric in metrics:
            values = [*policy.values[policy.arm, metric, subset].values()]
            rows[f"{metric},{name}"] = sum(values) / len(values)
            rows[f"{metric}_stderr,{name}"] = (
                stdev(values) / len(values) ** 0.5 if len(values) > 1 else "N/A"
            )
    return rows


def _config(task: str, metrics: list[str], params: Params) -> dict[str, Any]:
    return {
        "task": task,
        "dataset_path": params.prepare.source or task,
        "test_split": "test",
        "output_type": "generate_until",
        "num_fewshot": 0,
        "repeats": params.evaluate.num_paths,
        "generation_kwargs": _generation(params),
        "metric_list": [
            {"metric": metric, "aggregation": "mean", "higher_is_better": True}
            for metric in metrics
        ],
        "filter_list": [{"name": name} for name in _FILTERS],
        "metadata": {"version": 1},
    }


def _generation(params: Params) -> dict[str, Any]:
    sample = params.sample
    return {
        "do_sample": sample.temperature > 0,
        "temperature": sample.temperature,
        "top_p": sample.top_p,
        "max_gen_toks": sample.max_new_tokens,
    }


def _intervals(policy: EvaluatedPolicy, metrics: list[str]) -> dict[str, dict[str, float]]:
    study = policy.study
    return {
        f"{metric},{name}": {
            **study.point(policy.arm, metric, subset=subset).interval.row(),
            "level": study.level,
        }
        for name, subset in _FILTERS.items()
        for metric in metrics
    }


def _differences(policy: EvaluatedPolicy) -> dict[str, dict[str, Any]]:
    """Paired differences of trained minus base by k."""
    return {
        f"{one.measure},strict": {
            **one.interval.row(),
            "level": policy.study.level,
            "p_value": one.p,
            "finding": one.finding.value,
        }
        for one in policy.differences
        if one.subset == ALL
    }
