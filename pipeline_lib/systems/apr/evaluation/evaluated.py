"""Figures of an evaluation: of each model under each condition and temperature, and their comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.systems.apr.evaluation.comparisons import (
    Comparison,
    EqualPath,
    EqualTokens,
    compare_at_equal_path,
    compare_at_equal_tokens,
    compare_models,
)
from pipeline_lib.systems.apr.evaluation.figures import (
    DrawnRows,
    ModelFigures,
    best_conditions,
    model_figures,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """Figures of all settings, and their comparisons."""

    models: Sequence[ModelFigures]
    paired: Sequence[Comparison]
    equal_tokens: Sequence[EqualTokens]
    equal_path: Sequence[EqualPath]
    best: Sequence[ModelFigures]
    """The best condition of each model and temperature with several; empty for test problems, on which
    nothing is to be chosen."""
    trained_on: Sequence[str] = ()
    """Of `problems.trained`."""


def estimate(
    drawn: Sequence[DrawnRows], params: EvaluateParams, *, split: str | None, seed: int
) -> Evaluated:
    """All figures of ``drawn``, in whose settings at least one rollout each must not have failed."""
    models = [model_figures(one, params, seed=seed) for one in drawn]
    return Evaluated(
        models=models,
        paired=compare_models(drawn, params, seed=seed),
        equal_tokens=compare_at_equal_tokens(drawn, params, seed=seed),
        equal_path=compare_at_equal_path(drawn, params, seed=seed),
        best=[] if split == "test" else best_conditions(models),
    )
