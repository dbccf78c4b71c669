"""The journal of an output file: pieces survive a kill, other work is refused."""

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.store.journal import open_journal


def test_pieces_are_kept(tmp_path):
    """A second command with the same key has the pieces of the first, in their order."""
    output = tmp_path / "out.jsonl.partial"
    journal = open_journal(output, key="k")
    journal.add("b", {"text": "\ud800 é\n"})
    journal.add("a", {"text": "2"})
    again = open_journal(output, key="k")
    assert list(again.pieces.items()) == [("b", {"text": "\ud800 é\n"}), ("a", {"text": "2"})]


@pytest.mark.parametrize("cut", range(1, 30, 7))
def test_a_line_that_was_cut_off_is_dropped(tmp_path, cut):
    """The earlier pieces are kept, and later ones are added behind them."""
    output = tmp_path / "out.jsonl.partial"
    journal = open_journal(output, key="k")
    journal.add("a", {"text": "1"})
    journal.add("b", {"text": "2 and more text"})
    journal.path.write_bytes(journal.path.read_bytes()[:-cut])
    again = open_journal(output, key="k")
    assert list(again.pieces) == ["a"]
    again.add("c", {"text": "3"})
    assert list(open_journal(output, key="k").pieces) == ["a", "c"]


def test_other_work_is_refused(tmp_path):
    """The message names the file and the remedy; nothing is lost."""
    output = tmp_path / "out.jsonl.partial"
    open_journal(output, key="k").add("a", {})
    with pytest.raises(BadInputError, match=r"out\.jsonl\.partial: is of another input.*remove"):
        open_journal(output, key="other")
    assert list(open_journal(output, key="k").pieces) == ["a"]


def test_other_work_is_replaced_where_that_is_asked_for(tmp_path):
    """Its pieces are gone; those of the same key are kept."""
    path = tmp_path / "x.journal"
    open_journal(path, key="a").add("p1", {})
    assert open_journal(path, key="a", replaces_other=True).pieces == {"p1": {}}
    assert open_journal(path, key="b", replaces_other=True).pieces == {}
    with pytest.raises(BadInputError):
        open_journal(path, key="a")


def test_a_damaged_journal_is_refused(tmp_path):
    """Not JSON in the middle."""
    output = tmp_path / "out.jsonl.partial"
    journal = open_journal(output, key="k")
    journal.path.write_text("nonsense\n{}\n", "utf-8")
    with pytest.raises(BadInputError, match="is damaged"):
        open_journal(output, key="k")


def test_removal(tmp_path):
    """After it a command starts anew."""
    output = tmp_path / "out.jsonl.partial"
    journal = open_journal(output, key="k")
    journal.add("a", {})
    journal.remove()
    assert open_journal(output, key="other").pieces == {}
