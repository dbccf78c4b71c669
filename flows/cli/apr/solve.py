"""`reasonloop apr solve`."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from flows.cli.options import (
    AT_LEAST_ONE,
    AT_LEAST_ZERO,
    DEFAULT_PARAMS,
    DEFAULT_RUN,
    EngineLogs,
    EngineOption,
    Model,
    ParamsOptions,
    Temperature,
)
from flows.run.terminal import say
from pipeline_lib.errors import ReasonloopError

_BATCH = 16


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """Options for the limits of threads."""

    children: Annotated[int, Parameter(help="Children of one spawn.", validator=AT_LEAST_ONE)] = 8
    depth: Annotated[
        int,
        Parameter(help="Generations of children; 0: none.", validator=AT_LEAST_ZERO),
    ] = 1
    draws: Annotated[int, Parameter(help="Draws of one thread.", validator=AT_LEAST_ONE)] = 4
    max_tokens: Annotated[int, Parameter(help="Tokens of one draw.", validator=AT_LEAST_ONE)] = 512
    all_tokens: Annotated[
        int, Parameter(help="Tokens that all threads draw together.", validator=AT_LEAST_ONE)
    ] = 8192


DEFAULT_LIMITS = LimitOptions()


def solve(  # noqa: PLR0913 - one argument per option
    model: Model,
    question: Annotated[str, Parameter(help="The question, as the user would ask it.")],
    /,
    *,
    limits: LimitOptions = DEFAULT_LIMITS,
    temperature: Temperature = 0.0,
    engine: EngineOption = None,
    workspace: EngineLogs = DEFAULT_RUN.workspace,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Answer one question with a language model that may spawn threads for parts of the work.

    **Examples:**

        reasonloop apr solve models/smollm2 "What is 17 * 23, and what is 19 * 29?"
        reasonloop apr solve NAME "..." --engine url --set serve.url=http://host:8000/v1 --depth 2
    """
    loaded = params.load({"serve.engine": engine})
    from pipeline_lib.engines.chat_model import Decoding  # noqa: PLC0415 - as above
    from pipeline_lib.engines.started_engine import started_engine  # noqa: PLC0415 - as above
    from pipeline_lib.systems.apr import solve as solving  # noqa: PLC0415 - torch is slow
    from pipeline_lib.systems.apr.runtime import Limits  # noqa: PLC0415 - as above

    bounds = Limits(
        depth=limits.depth,
        children=limits.children,
        draws=limits.draws,
        tokens=limits.all_tokens,
    )
    log_folder = workspace.resolve() / "logs"
    with started_engine(model, loaded.serve, log_folder=log_folder, batch_size=_BATCH) as drawing:
        [answer] = solving.solve_all(
            drawing,
            [question],
            limits=bounds,
            decoding=Decoding(temperature=temperature, max_new_tokens=limits.max_tokens),
            concurrency=loaded.serve.concurrency,
            seed=loaded.seed,
        )
    if answer.rollout.error is not None:
        raise ReasonloopError(f"the first thread failed: {answer.rollout.error}")
    say(answer.text)
    for line in solving.account(answer.rollout):
        say(line)
