"""Tables of the report on a console."""

from rich.table import Table

from flows.terminal import console
from pipeline_lib.reporting.tables import Table as ReportTable


def print_table(table: ReportTable) -> None:
    """Print one of the report's tables."""
    shown = Table(*table.columns, title=table.caption, title_justify="left", box=None)
    for row in table.rows:
        shown.add_row(*row)
    console.print(shown, markup=False)
