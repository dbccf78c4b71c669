"""Params of evaluation (pass@k), of test-time compute, and of the report."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import override

from pipeline_lib.params.paths import DataParams
from pipeline_lib.params.sections import Count, Fraction, Positive, Rate, Section, Whole, repetition
from pipeline_lib.params.serve import address_faults


class EvaluationSet(DataParams):
    """A data set that policies are evaluated on besides the test split of the run.

    Its name is also the one in the report; without a source it comes from where it is published.
    """

    problems: Count | None = None
    """Number of problems; null: all of them."""


class EvaluateParams(Section):
    """Scores of the policies on the held-out problems."""

    num_paths: Count = 16
    temperatures: tuple[Annotated[float, Field(ge=0)], ...] = ()
    """Temperatures, besides ``sample.temperature``, at which the policies are compared: a gain at one
    temperature alone can be a sharper distribution, not a better one."""
    ks: tuple[Count, ...] = (1, 4, 8)
    sets: tuple[EvaluationSet, ...] = ()
    """Further sets, on which base, control and policy are compared at ``sample.temperature``."""
    resamples: Count = 10000
    """Bootstrap resamples over problems."""
    confidence_level: Rate = 0.95
    """Confidence level of all intervals."""

    @override
    def faults(self) -> Iterator[str]:
        yield from repetition(temperatures=self.temperatures)
        yield from repetition(sets=[one.dataset for one in self.sets])
        if paths := [one.dataset for one in self.sets if "/" in one.dataset]:
            yield f"sets={paths}; results are kept by name, which must have no /"
        if 1 not in self.ks:
            yield f"ks={list(self.ks)}; it must contain 1, since pass@1 is the headline"
        if self.num_paths < max(self.ks):
            yield f"num_paths={self.num_paths}; pass@{max(self.ks)} needs at least {max(self.ks)}"


class Strategy(StrEnum):
    """A way to spend test-time compute on one problem."""

    SINGLE = "single"
    ORACLE = "oracle"
    """Best of N by the verifier: an upper bound, since it needs the gold."""
    REWARD = "reward"
    """Best of N by a served reward model."""
    LIKELIHOOD = "likelihood"
    MEAN_LOGPROB = "mean-logprob"
    SELF_CERTAINTY = "self-certainty"
    MAJORITY = "majority"
    LIKELIHOOD_VOTE = "likelihood-vote"
    CERTAINTY_VOTE = "self-certainty-vote"
    BORDA_VOTE = "borda-vote"
    BEAM = "beam"
    TREE = "tree"


RESCORING = frozenset({Strategy.SELF_CERTAINTY, Strategy.CERTAINTY_VOTE, Strategy.BORDA_VOTE})
"""Strategies that need a scoring pass of the policy over every path."""
SCORING = RESCORING | {Strategy.REWARD}
"""Strategies that read every path again."""


class BeamParams(Section):
    """Beam search over steps: of N continuations the best N / ``expansion`` are kept."""

    expansion: Annotated[int, Field(ge=2)] = 4
    """Continuations of each kept branch; budgets that are no multiple of it are skipped."""
    value: Literal["likelihood", "mean-logprob", "self-certainty"] = "mean-logprob"
    """Value of a partial path; it uses no label."""


class TreeParams(Section):
    """Monte Carlo tree search over steps, with progressive widening."""

    exploration: Annotated[float, Field(ge=0)] = 0.3
    """The constant c of UCT; values are in [0, 1]."""
    widening: Positive = 1.0
    """A node visited n times has had at most ceil(widening * n^widening_power) completions; below that
    number a visit draws another one, otherwise it descends to a child."""
    widening_power: Fraction = 0.9
    value: Literal["agreement", "mean-logprob", "self-certainty"] = "agreement"
    """Value of a rollout: the share of rollouts with the same answer, or the certainty of the policy."""


class RewardParams(Section):
    """A reward model that runs as a server: vLLM, or one with its route ``/classify``."""

    url: str | None = None
    """Its address, with the version, as in ``http://host:8001/v1``."""
    model: str | None = None
    """Its name there; null: the only one."""
    api_key_env: str = "REWARD_API_KEY"
    """Environment variable with the API key of the server."""
    timeout_s: Positive = 600.0
    """Of one score."""

    @override
    def faults(self) -> Iterator[str]:
        yield from address_faults(self.url, self.api_key_env)


class StrategyParams(Section):
    """Strategies of test-time compute, and their budgets."""

    strategies: Annotated[tuple[Strategy, ...], Field(min_length=1)] = tuple(
        one for one in Strategy if one is not Strategy.REWARD
    )
    budgets: Annotated[tuple[Count, ...], Field(min_length=1)] = (1, 2, 4, 8, 16, 32)
    """Points of each curve: paths of a problem, branches of a beam, rollouts of a tree."""
    max_subsets: Count = 500
    """A mean over subsets of the paths that has no closed form is exact up to this number of subsets, and
    otherwise estimated from this number of random ones."""
    borda_power: Annotated[float, Field(ge=0)] = 0.5
    """Rank r of N gives (N - r + 1)^power votes."""
    step_delimiter: Annotated[str, Field(min_length=1)] = "\n"
    """Text that ends a step of beam and tree search."""
    max_steps: Count = 16
    """Steps after which a branch is completed without further branching."""
    beam: BeamParams = BeamParams()
    tree: TreeParams = TreeParams()
    reward: RewardParams = RewardParams()
    """The reward model of the strategy ``reward``."""

    @property
    def beam_budgets(self) -> list[int]:
        """The budgets that are a multiple of the beam's expansion."""
        return sorted(budget for budget in self.budgets if budget % self.beam.expansion == 0)

    @override
    def faults(self) -> Iterator[str]:
        yield from repetition(strategies=self.strategies, budgets=self.budgets)
        if Strategy.REWARD in self.strategies and self.reward.url is None:
            yield "strategies holds reward, and reward.url is null; give the address of the reward model"


class ReportParams(Section):
    """Content of the report."""

    num_examples: Whole = 40
    """Problems in the browser of paths."""
