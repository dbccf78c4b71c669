"""report.html of an evaluation: one file without scripts or requests. Model output is escaped."""

import pathlib
from collections.abc import Mapping, Sequence

from pipeline_lib.store.files import write_text
from pipeline_lib.study.pages.environment import page_environment
from pipeline_lib.study.pages.figures import Plot
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.systems.apr.evaluation.curves import curve_plots
from pipeline_lib.systems.apr.evaluation.figures import TOKEN_COUNTS, ModelFigures
from pipeline_lib.systems.apr.rollouts import Row

_EXAMPLES = 20


def write_page(
    path: pathlib.Path,
    tables: Sequence[Table],
    models: Sequence[ModelFigures],
    *,
    rollouts: Mapping[str, Sequence[Row]],
) -> None:
    """Write the report, with the first of the ``rollouts`` of each setting, by its label."""
    shown = {label: rows[:_EXAMPLES] for label, rows in rollouts.items()}
    _write(path, tables, shown, curve_plots(models))


def write_trace(path: pathlib.Path, model: str, row: Row) -> None:
    """Write a page with one rollout of ``model``."""
    tokens = Table(
        caption="Tokens of the rollout",
        columns=("model", *TOKEN_COUNTS),
        rows=((model, *(str(row["tokens"][name]) for name in TOKEN_COUNTS)),),
    )
    _write(path, [tokens], {model: [row]}, [])


def _write(
    path: pathlib.Path,
    tables: Sequence[Table],
    rollouts: Mapping[str, Sequence[Row]],
    plots: Sequence[Plot],
) -> None:
    template = page_environment(pathlib.Path(__file__).parent).get_template("page.html.j2")
    models = [{"name": name, "rollouts": own} for name, own in rollouts.items()]
    write_text(path, template.render(tables=tables, models=models, plots=plots))
