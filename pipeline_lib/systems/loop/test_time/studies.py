"""Studies of test-time compute in a workspace, and their page."""

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline_lib.engines.client.reward_model import open_reward_model
from pipeline_lib.engines.known.table import engine_named
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import RESCORING, Strategy
from pipeline_lib.params.whole import Params
from pipeline_lib.store import manifests
from pipeline_lib.store.manifests import MANIFEST_NAME
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.pages.page import Page, Paper
from pipeline_lib.study.study import METRICS_NAME, Study, read_study

POLICIES = ("base", "trained", "model")
NOTE = (
    "Each arm spends a budget per problem: paths, branches of a beam, or rollouts of a tree. Strategies use neither "
    "gold answers nor verdicts. The oracle does: it is pass@N, the upper bound of any selection. Drawn tokens include "
    "tokens of discarded branches; prompt tokens include those that are read again to score a path."
)
PAGE = Page(
    title="test-time compute",
    paper=Paper(
        title="Snell et al. 2024, Scaling LLM Test-Time Compute Optimally",
        url="https://arxiv.org/abs/2408.03314",
    ),
    notes=[NOTE],
)


def read_curves(workspace: Workspace) -> dict[str, Study]:
    """The studies of a workspace by policy, base before trained before a model from outside; empty if there are none."""
    found = {}
    for policy in POLICIES:
        folder = workspace.compute_result(policy)
        if (folder / manifests.MANIFEST_NAME).is_file():
            manifests.check(folder, manifests.read_manifest(folder))
            found[policy] = read_study(folder / METRICS_NAME)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Studied:
    """A policy and the problems that it is asked."""

    name: str
    """One of `POLICIES`, and the folder of its data."""
    model: str
    """Folder or hub id; at a URL its name there."""
    problems: pathlib.Path
    """Table."""


def policies_of_run(workspace: Workspace, params: Params, names: Sequence[str]) -> list[Studied]:
    """The base, or the trained policy, of a finished run, and its test problems.

    Raises:
        BadInputError: one of them is missing or incomplete.
        ReasonloopError: a reward model does not answer.
    """
    _check_reward_model(params)
    trained = workspace.policy(params.rounds, rounds=params.rounds)
    folders, problems = {"base": workspace.base, "trained": trained}, workspace.problems("test")
    found = [Studied(name=name, model=str(folders[name]), problems=problems) for name in names]
    for folder in (problems, *(folders[name] for name in names)):
        if not (folder / MANIFEST_NAME).is_file():
            raise BadInputError(
                f"{folder}: missing or unfinished; run `reasonloop run` on this workspace first"
            )
    return found


def model_from_outside(workspace: Workspace, params: Params, model: str) -> Studied:
    """A given model and the problems of the only one of ``evaluate.sets``.

    Raises:
        BadInputError: a strategy of ``test_time`` needs a model in this process.
        ReasonloopError: a reward model does not answer.
    """
    _check_strategies(params)
    _check_reward_model(params)
    [asked] = params.evaluate.sets
    return Studied(name="model", model=model, problems=workspace.evaluation_problems(asked.dataset))


def _check_reward_model(params: Params) -> None:
    if Strategy.REWARD in params.test_time.strategies:
        open_reward_model(params.test_time.reward)


def _check_strategies(params: Params) -> None:
    serve, test_time = params.serve, params.test_time
    if not engine_named(serve.engine).is_external:
        return
    scored = [one for one in test_time.strategies if one in RESCORING]
    for strategy, value in (
        (Strategy.BEAM, test_time.beam.value),
        (Strategy.TREE, test_time.tree.value),
    ):
        if strategy in test_time.strategies:
            if value == "self-certainty":
                scored.append(strategy)
            if serve.tokenizer is None:
                raise BadInputError(
                    f"test_time.strategies: {strategy.value} search continues texts, which a chat route does not; "
                    "set serve.tokenizer to the model's folder or hub id, or leave the search out"
                )
    if scored:
        raise BadInputError(
            f"test_time.strategies: {', '.join(scored)} need whole distributions, which no server returns; leave "
            "them out, or give the model's folder or hub id"
        )
