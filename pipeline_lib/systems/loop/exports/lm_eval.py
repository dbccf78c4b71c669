"""Results in the format of lm-evaluation-harness 0.4.

One task with the two scores as two filters. Standard errors are of a mean over problems, as
in the harness; bootstrap intervals and the paired comparison are under the key ``reasonloop``.

Source: EleutherAI/lm-evaluation-harness, `lm_eval.result_schema` of version 0.4.
"""

from datetime import UTC, datetime
from statistics import stdev
from typing import Any

from pipeline_lib.params.whole import Params
from pipeline_lib.study.study import ALL
from pipeline_lib.systems.loop.finished_run import SCORES, FinishedRun

REASONLOOP_KEY = "reasonloop"


def results_name(at: datetime) -> str:
    """File name of the results, as in the harness."""
    return f"results_{at.astimezone(UTC):%Y-%m-%dT%H-%M-%S}.json"


def lm_eval_results(run: FinishedRun, policy: str) -> dict[str, Any]:
    """The content of a results file of one policy as JSON values."""
    params, weights = run.params, run.weights(policy)
    task = params.prepare.dataset
    points = run.points(policy)
    metrics = [one.measure for one in points["strict"]]
    effective = points["strict"][0].n
    return {
        "results": {
            task: {"name": task, "alias": task, "sample_len": effective, **_scores(run, policy)}
        },
        "group_subtasks": {task: []},
        "configs": {task: _config(task, metrics, params)},
        "versions": {task: 1},
        "n-shot": {task: 0},
        "higher_is_better": {task: dict.fromkeys(metrics, True)},
        "n-samples": {
            task: {
                "original": effective + run.counts[policy].left_out,
                "effective": effective,
            }
        },
        "config": {
            "model": REASONLOOP_KEY,
            "model_args": {"policy": policy, "weights": weights},
            "limit": None,
            "bootstrap_iters": params.evaluate.resamples,
            "gen_kwargs": _generation(params),
            "random_seed": params.seed,
        },
        "date": run.evaluated_at.timestamp(),
        "model_source": REASONLOOP_KEY,
        "model_name": f"{policy}-{weights}",
        "model_name_sanitized": f"{policy}-{weights}",
        REASONLOOP_KEY: {
            "intervals": {
                f"{one.measure},{name}": {**one.interval.row(), "level": run.study.level}
                for name, found in points.items()
                for one in found
            },
            "paired_difference": _differences(run),
            "lineage": dict(run.lineage),
        },
    }


def _scores(run: FinishedRun, policy: str) -> dict[str, float | str]:
    """``METRIC,FILTER`` and ``METRIC_stderr,FILTER``; ``N/A`` without a standard error."""
    rows: dict[str, float | str] = {}
    for name, points in run.points(policy).items():
        for one in points:
            values = [*run.values[one.arm, one.measure, one.subset].values()]
            rows[f"{one.measure},{name}"] = sum(values) / len(values)
            rows[f"{one.measure}_stderr,{name}"] = (
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
        "filter_list": [{"name": name} for name in SCORES],
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


def _differences(run: FinishedRun) -> dict[str, dict[str, Any]]:
    """Paired differences of trained minus base by k."""
    pair = (run.arms["trained"], run.arms["base"])
    return {
        f"{one.measure},strict": {
            **one.interval.row(),
            "level": run.study.level,
            "p_value": one.p,
            "finding": one.finding.value,
        }
        for one in run.study.differences
        if (one.arm, one.reference) == pair and one.subset == ALL
    }
