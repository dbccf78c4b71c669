"""The study of a run with invented letters in place of judged paths."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from pipeline_lib.params.whole import Params
from pipeline_lib.records import Group
from pipeline_lib.study.policies import PathCounts
from pipeline_lib.study.study import Series, Study, arm_name
from pipeline_lib.systems.loop.study import loop_study
from tests.unit.study.judged_groups import judged_group


def groups_of(letters: Sequence[str]) -> list[Group]:
    """Problems p000, p001, ... with these letters."""
    return [judged_group(f"p{index:03d}", one) for index, one in enumerate(letters)]


def params_of(*, ks: tuple[int, ...] = (1,), control: bool = True, further: Sequence[float] = ()):
    """Params of a run with 500 resamples."""
    return Params.model_validate(
        {
            "evaluate": {
                "num_paths": 2 * max(ks),
                "ks": ks,
                "resamples": 500,
                "temperatures": tuple(further),
            },
            "train": {"control": control},
        }
    )


def invented(
    groups: Mapping[tuple[str, float] | str, Sequence[Group]], params: Params
) -> tuple[Study, list[Series]]:
    """The study of groups by folder (``base``, ``control``, ``trained``), or by folder and further temperature."""
    return loop_study(
        params,
        lambda policy, temperature: (
            groups[policy]
            if temperature == params.sample.temperature
            else groups[policy, temperature]
        ),
        provenance={"version": "1", "commit": None, "params_digest": "e4e4"},
        seen={},
    )


def report_fields(groups: Mapping[str, Sequence[Group]], params: Params) -> dict[str, Any]:
    """The fields of a `ReportInput` that come from the study."""
    study, series = invented(groups, params)
    temperature = params.sample.temperature
    names = {base: arm_name(study, base, T=temperature) for base in ("base", "policy", "control")}
    values = {(one.arm.base, one.measure, one.subset): one.values for one in series}
    return {
        "study": study,
        "values": values,
        "base": names["base"],
        "policy": names["policy"],
        "control_arm": names["control"],
        "counts": TypeAdapter(dict[str, PathCounts]).validate_python(study.compute["policies"]),
        "groups": groups,
    }
