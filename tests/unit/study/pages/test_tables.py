"""Tables as Markdown."""

from pipeline_lib.study.pages.tables import Table, markdown


def test_markdown_keeps_bars_inside_their_cell():
    """A bar in a problem id must not open a new column."""
    table = Table(caption="Flips", columns=("problem", "base"), rows=(("a|b", "1"),))
    text = markdown("T", ["S."], [table])
    assert text == "# T\n\nS.\n\n**Flips**\n\n| problem | base |\n| --- | --- |\n| a\\|b | 1 |\n"
