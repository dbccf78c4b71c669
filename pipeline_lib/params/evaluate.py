"""What a policy is worth: pass@k, accuracy against test-time compute, and the report of both."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from pipeline_lib.params.sections import Count, Fraction, Positive, Rate, Section, Whole


class EvaluateParams(Section):
    """Base against trained on the held-out problems."""

    num_paths: Count = 16
    ks: tuple[Count, ...] = (1, 4, 8)
    resamples: Count = 10000
    """Bootstrap resamples over problems."""
    confidence_level: Rate = 0.95
    """Of all intervals."""

    @model_validator(mode="after")
    def _enough_paths(self) -> "EvaluateParams":
        if 1 not in self.ks:
            raise ValueError(f"ks={list(self.ks)}; it must hold 1, pass@1 is the headline")
        if self.num_paths < 2 * max(self.ks):
            raise ValueError(
                f"num_paths={self.num_paths}; pass@{max(self.ks)} needs at least {2 * max(self.ks)}"
            )
        return self


class Strategy(StrEnum):
    """A way to spend compute on one problem at test time."""

    SINGLE = "single"
    ORACLE = "oracle"
    """Best of N by the verifier: an upper bound, since only the gold can choose like this."""
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
"""Strategies for which the policy reads every path once more."""


class BeamParams(Section):
    """Beam search over steps: of N continuations the best N / ``expansion`` go on."""

    expansion: Annotated[int, Field(ge=2)] = 4
    """Continuations of each branch that is kept; a budget below it is no beam, and is left out."""
    value: Literal["likelihood", "mean-logprob", "self-certainty"] = "mean-logprob"
    """What a partial path is worth; no label is part of it."""


class TreeParams(Section):
    """Monte Carlo tree search over steps, with progressive widening."""

    exploration: Annotated[float, Field(ge=0)] = 0.3
    """The constant c of UCT; values are in [0, 1]."""
    widening: Positive = 1.0
    """A node visited n times may have had ceil(widening * n^widening_power) completions ..."""
    widening_power: Fraction = 0.9
    """... before one of its children is gone on from."""
    value: Literal["agreement", "mean-logprob", "self-certainty"] = "agreement"
    """What a rollout is worth: the share of rollouts with its answer, or how sure the policy was."""


class StrategyParams(Section):
    """Test-time compute: accuracy against tokens and against the critical path."""

    strategies: Annotated[tuple[Strategy, ...], Field(min_length=1)] = tuple(Strategy)
    budgets: Annotated[tuple[Count, ...], Field(min_length=1)] = (1, 2, 4, 8, 16, 32)
    """Points of each curve: paths of a problem, branches of a beam, rollouts of a tree."""
    max_subsets: Count = 500
    """A mean over subsets without a formula is exact up to so many of them, else over so many."""
    borda_power: Annotated[float, Field(ge=0)] = 0.5
    """Rank r of N gives (N - r + 1)^power votes."""
    step_delimiter: Annotated[str, Field(min_length=1)] = "\n"
    """What ends a step of beam and tree search."""
    max_steps: Count = 16
    """A branch that has so many is drawn to its end at once."""
    beam: BeamParams = BeamParams()
    tree: TreeParams = TreeParams()

    @property
    def beam_budgets(self) -> list[int]:
        """The budgets that are a multiple of the beam's expansion."""
        return sorted(budget for budget in self.budgets if budget % self.beam.expansion == 0)

    @model_validator(mode="after")
    def _distinct(self) -> "StrategyParams":
        for name, values in (("strategies", self.strategies), ("budgets", self.budgets)):
            if len(set(values)) < len(values):
                raise ValueError(f"{name}={list(map(str, values))}; each may stand once")
        return self


class ReportParams(Section):
    """What the report shows."""

    num_examples: Whole = 40
    """Problems in the browser of paths."""
