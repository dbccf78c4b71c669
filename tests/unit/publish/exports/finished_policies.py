"""The two policies of an invented run, as exports take them."""

from datetime import UTC, datetime

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.whole import Params
from pipeline_lib.publish.exports.evaluated_policy import EvaluatedPolicy, evaluated_policies
from pipeline_lib.publish.reporting.report import ReportInput
from pipeline_lib.publish.reporting.run_compute import RunCompute, StageCosts, TrainingCompute
from tests.unit.study.judged_groups import judged_group
from tests.unit.systems.loop.invented_study import params_of, report_fields

EVALUATED_AT = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)


def finished(base: list[str], trained: list[str], *, ks: tuple[int, ...]) -> ReportInput:
    """A run whose problems p0, p1, ... have these letters, before and after training."""
    groups = {
        name: [judged_group(f"p{index}", letters) for index, letters in enumerate(policy)]
        for name, policy in (("base", base), ("trained", trained))
    }
    return ReportInput(
        **report_fields(groups, params_of(ks=ks, control=False)),
        costs=StageCosts(seconds={}, total_seconds=0.0, tokens={}, peaks_mib={}),
        spent=RunCompute(
            loop=TrainingCompute(
                cpu_seconds=0.0, gpu_seconds=0.0, trained_tokens=0, drawn_tokens=0
            ),
            control=None,
        ),
        control=None,
        unseen_number_sets=None,
        spending={},
        training_log=[
            {"phase": "warm-start", "step": 1, "lr": 0.002},
            {"phase": "grpo", "step": 1, "lr": 5e-5},
        ],
        data_counts={"problems": 20},
        overlap={"touched_test": 0},
        lineage={"trained policy": "57afcd447c0ecacc"},
        num_examples=2,
    )


def run_params(ks: tuple[int, ...]) -> Params:
    """Params of such a run."""
    return Params(evaluate=EvaluateParams(num_paths=2 * max(ks), ks=ks, resamples=500))


def policies(base: list[str], trained: list[str], *, ks: tuple[int, ...]) -> list[EvaluatedPolicy]:
    """Base and trained."""
    source = finished(base, trained, ks=ks)
    return evaluated_policies(source, dataset="countdown", evaluated_at=EVALUATED_AT)
