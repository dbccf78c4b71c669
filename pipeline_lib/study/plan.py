"""Which draws an evaluation consists of: policies, temperatures, and the baselines of a given model."""

from collections.abc import Iterator

from pipeline_lib.params.paths import SampleParams
from pipeline_lib.params.whole import Params

BASE, CONTROL, TRAINED = "base", "control", "trained"
UNTOUCHED, FEW_SHOT = "untouched", "untouched few-shot"


def evaluation_draws(params: Params, *, control_is_base: bool) -> list[tuple[str, float]]:
    """Policy (or baseline) and temperature of every draw; a control equal to the base is not drawn again."""
    policies = [BASE, TRAINED]
    if params.train.control and not control_is_base:
        policies.append(CONTROL)
    policies.extend(baselines(params))
    return [(policy, temperature) for temperature in temperatures(params) for policy in policies]


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


def sampling_of(policy: str, temperature: float, params: Params) -> SampleParams:
    """Params of the paths of a draw."""
    return params.sample.model_copy(
        update={
            "num_paths": params.evaluate.num_paths,
            "temperature": temperature,
            "shots": params.sample.shots if policy == FEW_SHOT else 0,
        }
    )
