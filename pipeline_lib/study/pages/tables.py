"""Tables as text cells, for HTML, console and Prefect artifacts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.study.pages.wording import count, words


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Caption, column titles and rows of text; the first cell is the row header."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def mapping_table(caption: str, values: Mapping[str, str | float]) -> Table:
    """A table of names and values."""
    rows = tuple(
        (words(name), value if isinstance(value, str) else count(value))
        for name, value in values.items()
    )
    return Table(caption=caption, columns=("what", "value"), rows=rows)


def markdown(title: str, sentences: Sequence[str], tables: Sequence[Table]) -> str:
    """Title, sentences and tables as Markdown."""
    return "\n\n".join([f"# {title}", *sentences, markdown_tables(tables)]) + "\n"


def markdown_tables(tables: Sequence[Table]) -> str:
    """Tables as Markdown, each under its caption."""
    return "\n\n".join(_markdown_table(table) for table in tables)


def _markdown_table(table: Table) -> str:
    return "\n".join([f"**{table.caption}**", "", *_markdown_lines(table)])


def _markdown_lines(table: Table) -> Iterator[str]:
    for cells in (table.columns, ("---",) * len(table.columns), *table.rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
