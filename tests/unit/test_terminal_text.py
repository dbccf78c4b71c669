"""Terminal text: no control characters, and one line where required."""

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from flows.run.terminal import PlainConsole
from pipeline_lib.errors import reason_of
from pipeline_lib.terminal_text import one_line, printable

ANY_TEXT = st.text(st.characters(codec=None, categories=None))


@given(ANY_TEXT)
def test_nothing_that_steers_is_left(text):
    """No C0 but tab and line feed, no DEL, no C1, nothing that UTF-8 cannot encode; idempotent."""
    shown = printable(text)
    assert not [c for c in shown if unicodedata.category(c) == "Cc" and c not in "\t\n"]
    shown.encode()
    assert printable(shown) == shown


@given(ANY_TEXT)
def test_one_line_is_one_line(text):
    """Text with any line breaks and of any length becomes one short line."""
    assert len(one_line(text, most=50).splitlines()) <= 1
    assert len(one_line(text, most=50)) <= 50


@given(st.text(st.characters(categories=["L", "N", "P", "S"])))
def test_plain_text_stays(text):
    """Letters of any script, digits and symbols are unchanged."""
    assert printable(text) == text


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b[2J\x1b[H",
        "\x1b]0;title\x07",
        "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
        "\x9b31m",
        "\x9d52;c;aGk=\x9c",
        "ok\rERASED",
        "a\x08b",
        "\u202egnp.exe",
        "\ud800",
        "\x00",
    ],
)
@pytest.mark.parametrize("wrap", [str, Text, "table"], ids=["text", "styled", "table"])
def test_every_console_output_is_cleaned(hostile, wrap):
    """As a line, as styled text and in a table, no control character is written and no error raised."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8")
    console = PlainConsole(file=stream, width=200)
    if wrap == "table":
        shown = Table("id", title=hostile)
        shown.add_row(hostile)
    else:
        shown = wrap(hostile)
    console.print(shown, markup=False)
    stream.flush()
    text = raw.getvalue().decode()
    assert not [c for c in text if unicodedata.category(c) == "Cc" and c != "\n"]
    assert "\u202e" not in text


def test_own_colours_stay():
    """Styles of the console itself are written."""
    console = PlainConsole(file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print("a", style="red")
    assert console.file.getvalue() == "\x1b[31ma\x1b[0m\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError(), "ValueError"),
        (KeyError("a\nb"), r"'a\nb'"),
        (OSError("a\n \x1b[1mb"), "a [1mb"),
    ],
)
def test_a_reason_is_never_empty(error, said):
    """An error without a message is named by its type."""
    assert reason_of(error) == said
