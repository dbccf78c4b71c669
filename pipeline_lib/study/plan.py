"""Which draws an evaluation consists of: problem sets, policies, temperatures, and the baselines of a given model."""

from collections.abc import Iterator
from typing import NamedTuple

from pipeline_lib.params.paths import SampleParams, ServerParams
from pipeline_lib.params.whole import Params
from pipeline_lib.study.attempts import MAIN

BASE, CONTROL, TRAINED = "base", "control", "trained"
UNTOUCHED, FEW_SHOT = "untouched", "untouched few-shot"
TEACHER = "teacher"


class Case(NamedTuple):
    """A policy (or baseline) at a temperature on a problem set."""

    policy: str
    temperature: float
    set: str = MAIN

    def folder(self, params: Params) -> str:
        """Folder of its draw; the temperature is in the names of the further ones."""
        name = self.policy.replace(" ", "-")
        if self.temperature != params.sample.temperature:
            name += f"-t{self.temperature:g}"
        return name if self.set == MAIN else f"{self.set}/{name}"

    def sampling(self, params: Params) -> SampleParams:
        """Params of its paths."""
        return params.sample.model_copy(
            update={
                "num_paths": params.evaluate.num_paths,
                "temperature": self.temperature,
                "shots": params.sample.shots if self.policy == FEW_SHOT else 0,
                "server": params.sample.server if self.policy == TEACHER else ServerParams(),
            }
        )


def evaluation_cases(params: Params) -> list[Case]:
    """All that is compared, the sets below each temperature: the control where there is one, then the baselines.

    The further sets are drawn at the temperature of sampling, and without shots, which are of the run's data set.
    """
    control = [CONTROL] if params.train.control else []
    policies = [BASE, *control, TRAINED, *baselines(params)]
    main = [Case(policy, value) for value in temperatures(params) for policy in policies]
    further = [
        Case(policy, params.sample.temperature, one.dataset)
        for one in params.evaluate.sets
        for policy in policies
        if policy != FEW_SHOT
    ]
    return [*main, *further]


def evaluation_draws(params: Params, *, control_is_base: bool) -> list[Case]:
    """The cases that are drawn, by policy; a control equal to the base is not drawn again."""
    cases = [
        one for one in evaluation_cases(params) if not (control_is_base and one.policy == CONTROL)
    ]
    order = [BASE, TRAINED, CONTROL, *baselines(params)]
    return sorted(cases, key=lambda one: order.index(one.policy))


def temperatures(params: Params) -> tuple[float, ...]:
    """The temperature of sampling, then the further ones."""
    first = params.sample.temperature
    return (first, *(other for other in params.evaluate.temperatures if other != first))


def baselines(params: Params) -> Iterator[str]:
    """The model of a server that draws the paths; a given model as it is, if the base was taught, and with shots."""
    if params.sample.drawn_by_server:
        yield TEACHER
    if params.bootstrap.model is None:
        return
    if params.bootstrap.format_steps:
        yield UNTOUCHED
    if params.sample.shots:
        yield FEW_SHOT
