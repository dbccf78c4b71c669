"""report.html of an evaluation: one file without scripts or requests. Model output is escaped."""

import pathlib
from collections.abc import Mapping, Sequence

from pipeline_lib.adaptive.evaluation.figures import TOKEN_COUNTS, Comparison, ModelFigures, Row
from pipeline_lib.adaptive.rollout import Event
from pipeline_lib.reporting.pages import page_environment
from pipeline_lib.reporting.tables import Table
from pipeline_lib.reporting.wording import (
    count,
    difference,
    level,
    p_value,
    percent,
    score,
    words,
)
from pipeline_lib.storage.files import write_text

_EXAMPLES = 20


def write_page(
    path: pathlib.Path,
    models: Sequence[ModelFigures],
    paired: Sequence[Comparison],
    rows: Mapping[str, Sequence[Row]],
) -> None:
    """Write the report, with the first rollouts of each model."""
    shown = {name: own[:_EXAMPLES] for name, own in rows.items()}
    _write(path, _make_tables(models, paired), shown)


def write_trace(path: pathlib.Path, model: str, row: Row) -> None:
    """Write a page with one rollout of ``model``."""
    tokens = Table(
        caption="Tokens of the rollout",
        columns=("model", *TOKEN_COUNTS),
        rows=((model, *(str(row["tokens"][name]) for name in TOKEN_COUNTS)),),
    )
    _write(path, [tokens], {model: [row]})


def _write(
    path: pathlib.Path, tables: Sequence[Table], rollouts: Mapping[str, Sequence[Row]]
) -> None:
    template = page_environment(pathlib.Path(__file__).parent).get_template("page.html.j2")
    models = [{"name": name, "rollouts": own} for name, own in rollouts.items()]
    write_text(path, template.render(tables=tables, models=models))


def _make_tables(models: Sequence[ModelFigures], paired: Sequence[Comparison]) -> list[Table]:
    """Accuracy, tokens, events and differences."""
    tables = [accuracy_table(models), token_table(models), _event_table(models)]
    return [*tables, paired_table(paired)] if paired else tables


def accuracy_table(models: Sequence[ModelFigures]) -> Table:
    """Accuracy and claims of each model."""
    return Table(
        caption=f"Accuracy with {level(models[0].accuracy)} intervals over problems",
        columns=(
            *("model", "kind", "condition", "problems", "failed rollouts", "accuracy"),
            *("any sample (upper bound)", "any child right", "claims", "false claims"),
        ),
        rows=tuple(
            (
                one.name,
                one.kind,
                one.condition or "none",
                str(one.problems),
                f"{one.failed} of {one.rollouts}",
                score(one.accuracy),
                *map(percent, (one.any_sample, one.any_child_right, one.claims, one.false_claims)),
            )
            for one in models
        ),
    )


def token_table(models: Sequence[ModelFigures]) -> Table:
    """The four token counts of each model."""
    return Table(
        caption="Tokens of a rollout: means over rollouts that did not fail",
        columns=("model", *TOKEN_COUNTS),
        rows=tuple(
            (one.name, *(f"{one.tokens[name]:.1f}" for name in TOKEN_COUNTS)) for one in models
        ),
    )


def _event_table(models: Sequence[ModelFigures]) -> Table:
    return Table(
        caption="Counts of a rollout: means over rollouts that did not fail",
        columns=("model", *(words(event.value) for event in Event)),
        rows=tuple(
            (one.name, *(count(one.events[event.value]) for event in Event)) for one in models
        ),
    )


def paired_table(paired: Sequence[Comparison]) -> Table:
    """Differences of accuracy on the same problems."""
    return Table(
        caption="Difference of accuracy in points, problem by problem",
        columns=("model minus base", "problems", "difference", "p", "finding"),
        rows=tuple(
            (
                f"{one.model} minus {one.base}",
                str(one.problems),
                difference(one.difference.interval),
                p_value(one.difference.p_value),
                one.difference.finding.value,
            )
            for one in paired
        ),
    )
