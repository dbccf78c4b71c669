"""Which draws an evaluation consists of: policies, temperatures, and the baselines of a given model."""

from collections.abc import Iterator
from dataclasses import dataclass

from pipeline_lib.params.paths import SampleParams
from pipeline_lib.params.whole import Params

BASE, CONTROL, TRAINED = "base", "control", "trained"
UNTOUCHED, FEW_SHOT = "untouched", "untouched few-shot"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDraw:
    """Paths of one policy for the test problems."""

    policy: str
    """BASE, CONTROL, TRAINED, or a baseline: UNTOUCHED or FEW_SHOT."""
    folder: str
    """Name of its folder in the workspace."""
    sampling: SampleParams


def evaluation_draws(params: Params, *, control_is_base: bool) -> list[PlannedDraw]:
    """Every draw of an evaluation; a control equal to the base is not drawn again."""
    policies = [BASE, TRAINED]
    if params.train.control and not control_is_base:
        policies.append(CONTROL)
    policies.extend(baselines(params))
    return [
        PlannedDraw(
            policy=policy,
            folder=folder_name(policy, temperature, params),
            sampling=_sampling(policy, temperature, params),
        )
        for temperature in temperatures(params)
        for policy in policies
    ]


def temperatures(params: Params) -> tuple[float, ...]:
    """The temperature of sampling, then the further ones."""
    first = params.sample.temperature
    return (first, *(other for other in params.evaluate.temperatures if other != first))


def baselines(params: Params) -> Iterator[str]:
    """Baselines of a given model: as it is, if the base was taught the answer format, and with shots."""
    if params.bootstrap.model is None:
        return
    if params.bootstrap.format_steps:
        yield UNTOUCHED
    if params.sample.shots:
        yield FEW_SHOT


def folder_name(policy: str, temperature: float, params: Params) -> str:
    """Folder of a draw; the temperature is in the names of the further ones."""
    name = policy.replace(" ", "-")
    return name if temperature == params.sample.temperature else f"{name}-t{temperature:g}"


def _sampling(policy: str, temperature: float, params: Params) -> SampleParams:
    return params.sample.model_copy(
        update={
            "num_paths": params.evaluate.num_paths,
            "temperature": temperature,
            "shots": params.sample.shots if policy == FEW_SHOT else 0,
        }
    )
