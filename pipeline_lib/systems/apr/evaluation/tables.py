"""Tables of an evaluation, for its page and the console."""

from collections.abc import Sequence

from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import (
    count,
    difference,
    level,
    p_value,
    percent,
    score,
    words,
)
from pipeline_lib.systems.apr.evaluation.comparisons import Comparison, EqualPath, EqualTokens
from pipeline_lib.systems.apr.evaluation.evaluated import Evaluated
from pipeline_lib.systems.apr.evaluation.figures import TOKEN_COUNTS, ModelFigures
from pipeline_lib.systems.apr.rollout import Event


def evaluation_tables(evaluated: Evaluated) -> list[Table]:
    """All tables with a row."""
    models = evaluated.models
    tables = [
        Table(
            caption="Problems of a training",
            columns=("model",),
            rows=tuple((sentence,) for sentence in evaluated.trained_on),
        ),
        _accuracy_table(models),
        _token_table(models),
        _event_table(models),
        _vote_table(models),
        _best_table(evaluated.best),
        _paired_table(evaluated.paired),
        _equal_token_table(evaluated.equal_tokens),
        _equal_path_table(evaluated.equal_path),
    ]
    return [table for table in tables if table.rows]


def _accuracy_table(models: Sequence[ModelFigures]) -> Table:
    """Accuracy and claims of each setting."""
    return Table(
        caption=f"Accuracy with {level(models[0].accuracy)} intervals over problems",
        columns=(
            *("model", "kind", "condition", "T", "problems", "failed rollouts", "accuracy"),
            *("any sample (upper bound)", "any child right", "claims", "false claims"),
        ),
        rows=tuple(
            (
                one.setting.name,
                one.setting.kind,
                one.setting.condition or "none",
                f"{one.setting.temperature:g}",
                str(one.problems),
                f"{one.failed} of {one.rollouts}",
                score(one.accuracy),
                *map(percent, (one.any_sample, one.any_child_right, one.claims, one.false_claims)),
            )
            for one in models
        ),
    )


def _token_table(models: Sequence[ModelFigures]) -> Table:
    """The four token counts of each setting."""
    return Table(
        caption="Tokens of a rollout: means over rollouts that did not fail",
        columns=("model", *TOKEN_COUNTS),
        rows=tuple(
            (one.setting.label, *(f"{one.tokens[name]:.1f}" for name in TOKEN_COUNTS))
            for one in models
        ),
    )


def _event_table(models: Sequence[ModelFigures]) -> Table:
    """Children, failures and cuts of each setting."""
    return Table(
        caption="Counts of a rollout: means over rollouts that did not fail",
        columns=("model", *(words(event.value) for event in Event)),
        rows=tuple(
            (one.setting.label, *(count(one.events[event.value]) for event in Event))
            for one in models
        ),
    )


def _best_table(best: Sequence[ModelFigures]) -> Table:
    """The chosen condition of each model and temperature."""
    return Table(
        caption="Best condition of each model, chosen on these problems",
        columns=("model", "T", "condition", "accuracy", *TOKEN_COUNTS),
        rows=tuple(
            (
                one.setting.name,
                f"{one.setting.temperature:g}",
                one.setting.condition or "none",
                score(one.accuracy),
                *(f"{one.tokens[name]:.1f}" for name in TOKEN_COUNTS),
            )
            for one in best
        ),
    )


def _vote_table(models: Sequence[ModelFigures]) -> Table:
    """Consensus and pass@k of the settings with several samples; tokens are of all k."""
    return Table(
        caption="Votes of k samples of each problem; pass@k is an upper bound of every choice among them",
        columns=("model", "k", "consensus", "pass@k (upper bound)", "drawn", "critical"),
        rows=tuple(
            (
                one.setting.label,
                str(vote.samples),
                score(vote.consensus),
                score(vote.any_sample),
                f"{vote.drawn_tokens:.1f}",
                f"{vote.critical_tokens:.1f}",
            )
            for one in models
            for vote in one.votes
        ),
    )


def _paired_table(paired: Sequence[Comparison]) -> Table:
    """Differences of accuracy on the same problems."""
    return Table(
        caption="Difference of accuracy in points, problem by problem",
        columns=("model minus base", "conditions", "T", "problems", "difference", "p", "finding"),
        rows=tuple(
            (
                f"{one.model.name} minus {one.base.name}",
                " | ".join(side.condition or "none" for side in (one.model, one.base)),
                f"{one.model.temperature:g}",
                str(one.problems),
                difference(one.difference.interval),
                p_value(one.difference.p_value),
                one.difference.finding.value,
            )
            for one in paired
        ),
    )


def _equal_token_table(compared: Sequence[EqualTokens]) -> Table:
    """One parallel rollout against votes of the serial model that draw as many tokens."""
    return Table(
        caption=(
            "Difference of accuracy in points at equal drawn tokens: one parallel rollout minus a vote "
            "of k serial ones"
        ),
        columns=(
            *("parallel", "serial", "k", "problems", "drawn by one", "drawn by k"),
            *("minus consensus@k", "minus pass@k (upper bound)"),
        ),
        rows=tuple(
            (
                one.parallel.label,
                one.serial.label,
                str(one.samples),
                str(one.problems),
                f"{one.drawn_tokens:.1f}",
                f"{one.serial_drawn_tokens:.1f}",
                *(
                    difference(found.interval) if found else f"give --serial-samples {one.samples}"
                    for found in (one.over_consensus, one.over_any_sample)
                ),
            )
            for one in compared
        ),
    )


def _equal_path_table(compared: Sequence[EqualPath]) -> Table:
    """One parallel rollout against a serial one that is cut at its critical path."""
    return Table(
        caption=(
            "Difference of accuracy in points at an equal critical path: parallel minus serial, whose rollouts "
            "are wrong where they draw more tokens than the mean critical path of parallel; both cut: parallel "
            "rollouts with a longer one are wrong, too"
        ),
        columns=(
            *("parallel", "serial", "problems", "critical", "critical, serial", "serial accuracy"),
            *("difference", "p", "both cut"),
        ),
        rows=tuple(
            (
                one.comparison.model.label,
                one.comparison.base.label,
                str(one.comparison.problems),
                f"{one.critical_tokens:.1f}",
                f"{one.serial_critical_tokens:.1f}",
                percent(one.serial_accuracy),
                difference(one.comparison.difference.interval),
                p_value(one.comparison.difference.p_value),
                difference(one.both_cut.interval),
            )
            for one in compared
        ),
    )
