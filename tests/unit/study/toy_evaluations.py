"""Evaluations of toy systems, as `write_study` leaves them."""

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Problem
from pipeline_lib.study.attempts import Cost
from pipeline_lib.study.study import Arm, Contrast, Series, make_study, write_study

EVALUATE = EvaluateParams(resamples=200)


@dataclass(frozen=True, kw_only=True)
class ToyArm:
    """Values by question, each at the same cost; 0 drawn tokens: no costs."""

    base: str
    values: Mapping[str, float]
    drawn: float = 10
    prompt: float = 0
    critical: float = 10
    upper_bound: bool = False
    seen: Sequence[str] = ()
    measure: str = "accuracy"

    def series(self, system: str) -> Series:
        cost = Cost(drawn=self.drawn, prompt=self.prompt, critical=self.critical)
        values = {f"{system}-{name}": value for name, value in self.values.items()}
        return Series(
            arm=Arm(
                base=self.base,
                upper_bound=self.upper_bound,
                seen=frozenset(f"{system}-{name}" for name in self.seen),
            ),
            measure=self.measure,
            values=values,
            costs=dict.fromkeys(values, cost) if self.drawn else {},
        )


def right(number: int, *, of: int = 10, start: int = 0) -> dict[str, float]:
    """Values of ``of`` problems from q-``start`` on, the first ``number`` of them right."""
    return {f"q{place}": float(place < start + number) for place in range(start, start + of)}


def write_evaluation(
    workspace: pathlib.Path, system: str, *arms: ToyArm, seed: int = 7
) -> pathlib.Path:
    """Write the evaluation of ``system``; its ids begin with its name. The first arm is compared with the second."""
    series = [arm.series(system) for arm in arms]
    study = make_study(
        system,
        series,
        [Contrast(candidate=series[0], reference=one, seed_names=("toy",)) for one in series[1:2]],
        evaluate=EVALUATE,
        seed=seed,
        provenance={"version": "1", "commit": None, "params_digest": "a"},
    )
    problems = [
        Problem(id=f"{system}-{name}", question=name, gold=MathGold(answer="1"), source="toy")
        for name in dict.fromkeys(name for arm in arms for name in arm.values)
    ]
    folder = workspace / "reports" / system
    write_study(folder, study, series, problems)
    return folder
