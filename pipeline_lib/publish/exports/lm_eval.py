"""Results in the format of lm-evaluation-harness 0.4.

One task with the two scores as two filters. Standard errors are those of a mean over problems, as
in the harness; bootstrap intervals and the paired comparison are under the key ``reasonloop``.

Source: EleutherAI/lm-evaluation-harness, `lm_eval.result_schema` of version 0.4.
"""

from dataclasses import asdict
from datetime import UTC, datetime
from statistics import stdev
from typing import Any

from pipeline_lib.params.whole import Params
from pipeline_lib.publish.exports.evaluated_policy import EvaluatedPolicy
from pipeline_lib.study.comparison import Comparison
from pipeline_lib.study.summary import EvalSummary

REASONLOOP_KEY = "reasonloop"
_FILTERS = {"strict": True, "lenient": False}
"""Names of the scores; True for the strict one."""


def results_name(at: datetime) -> str:
    """File name of the results, as in the harness."""
    return f"results_{at.astimezone(UTC):%Y-%m-%dT%H-%M-%S}.json"


def lm_eval_results(policy: EvaluatedPolicy, params: Params) -> dict[str, Any]:
    """The content of a results file as JSON values."""
    task, summary = policy.dataset, policy.summary
    metrics = [f"pass@{k}" for k in summary.ks]
    return {
        "results": {
            task: {
                "name": task,
                "alias": task,
                "sample_len": summary.num_problems,
                **_scores(summary),
            }
        },
        "group_subtasks": {task: []},
        "configs": {task: _config(task, metrics, params)},
        "versions": {task: 1},
        "n-shot": {task: 0},
        "higher_is_better": {task: dict.fromkeys(metrics, True)},
        "n-samples": {
            task: {
                "original": summary.num_problems + summary.num_left_out,
                "effective": summary.num_problems,
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
            "intervals": _intervals(summary),
            "paired_difference": _differences(policy.comparison),
            "lineage": dict(policy.lineage),
        },
    }


def _scores(summary: EvalSummary) -> dict[str, float | str]:
    """``METRIC,FILTER`` and ``METRIC_stderr,FILTER``; ``N/A`` without a standard error."""
    rows: dict[str, float | str] = {}
    for name, strict in _FILTERS.items():
        for k in summary.ks:
            values = [problem.pass_at(k, strict=strict) for problem in summary.problems]
            rows[f"pass@{k},{name}"] = sum(values) / len(values)
            rows[f"pass@{k}_stderr,{name}"] = (
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


def _intervals(summary: EvalSummary) -> dict[str, dict[str, float]]:
    return {
        f"pass@{k},{name}": asdict(interval)
        for name in _FILTERS
        for k, interval in getattr(summary, name).items()
    }


def _differences(comparison: Comparison) -> dict[str, dict[str, Any]]:
    """Paired differences of trained minus base by k."""
    return {
        f"pass@{k},strict": {
            **asdict(found.interval),
            "p_value": found.p_value,
            "finding": found.finding.value,
        }
        for k, found in comparison.strict.items()
    }
