"""Runs with invented letters in place of judged paths."""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pipeline_lib.params.whole import Params
from pipeline_lib.records import Group
from pipeline_lib.study.study import Series, Study, arm_name
from pipeline_lib.systems.loop.finished_run import FinishedRun
from pipeline_lib.systems.loop.study import loop_study
from tests.unit.study.judged_groups import judged_group

EVALUATED_AT = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
NOTHING = {"cpu_seconds": 0.0, "gpu_seconds": 0.0, "trained_tokens": 0, "drawn_tokens": 0}
NO_COMPUTE = {
    "loop": NOTHING,
    "control": None,
    "seconds": {"total": 0.0},
    "peak_mib": {},
    "tokens": {},
}


def groups_of(letters: Sequence[str]) -> list[Group]:
    """Problems p000, p001, ... with these letters."""
    return [judged_group(f"p{index:03d}", one) for index, one in enumerate(letters)]


def params_of(
    *,
    ks: tuple[int, ...] = (1,),
    control: bool = True,
    further: Sequence[float] = (),
    sets: Sequence[str] = (),
):
    """Params of a run with 500 resamples."""
    return Params.model_validate(
        {
            "evaluate": {
                "num_paths": 2 * max(ks),
                "ks": ks,
                "resamples": 500,
                "temperatures": tuple(further),
                "sets": tuple({"dataset": name} for name in sets),
            },
            "train": {"control": control},
        }
    )


def invented(
    groups: Mapping[tuple[str, float] | str, Sequence[Group]], params: Params
) -> tuple[Study, list[Series]]:
    """The study of groups by folder (``base``, ``aime24/base``), or by policy and further temperature."""
    return loop_study(
        params,
        lambda case: (
            groups[case.folder(params)]
            if case.temperature == params.sample.temperature
            else groups[case.policy, case.temperature]
        ),
        provenance={"version": "1", "commit": None, "params_digest": "e4e4"},
        seen={},
    )


def finished_run(
    groups: Mapping[str, Sequence[Group]],
    params: Params,
    *,
    compute: Mapping[str, Any] | None = None,
    **fields: Any,
) -> FinishedRun:
    """A run with these judged paths by policy; what is not given is empty.

    Args:
        groups: of base, trained and perhaps control.
        params: of the run.
        compute: of `read_compute`, besides the counts of paths.
        fields: of the run.
    """
    study, series = invented(groups, params)
    bases = {"base": "base", "control": "control", "trained": "policy"}
    names = {
        name: arm_name(study, base, T=params.sample.temperature) for name, base in bases.items()
    }
    return FinishedRun(
        params=params,
        study=dataclasses.replace(study, compute={**study.compute, **(compute or NO_COMPUTE)}),
        values={(one.arm.base, one.measure, one.subset): one.values for one in series},
        arms={name: arm for name, arm in names.items() if arm is not None},
        evaluated_at=EVALUATED_AT,
        groups=groups,
        **{
            "control": None,
            "preparation": {
                "unseen_number_sets": None,
                "overlap": {"touched_test": 0, "samples": []},
            },
            "trained_on": [],
            "spending": {},
            "training_log": [],
            "data_counts": {"problems": 20},
            "lineage": {"trained policy": "57afcd447c0ecacc"},
            "test_time": {},
            **fields,
        },
    )
