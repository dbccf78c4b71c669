"""The searches of the compact data."""

from pipeline_lib.systems.apr.countdown import lines
from pipeline_lib.systems.apr.countdown.compact import CompactSearch, parallel_trace, serial_trace
from tests.unit.systems.apr.countdown.texts import GOLDEN, show


def search(numbers=(3, 5, 12), target=27, **options) -> CompactSearch:
    settings = {"beam": 3, "sub_beam": 4, "max_value": 100} | options
    return CompactSearch(numbers=numbers, target=target, **settings)


def test_the_texts_are_those_of_the_golden_file():
    """A problem that three children miss, and one that both searches solve, to the byte."""
    traces = [
        trace(search(target=target))
        for target in (27, 20)
        for trace in (parallel_trace, serial_trace)
    ]
    assert "".join(map(show, traces)) == (GOLDEN / "apr_compact.txt").read_text("utf-8")


def operations(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith(lines.EXPLORE)]


def test_no_operation_is_repeated():
    """5 and 5 make one sum with 8 each, of which one is listed."""
    listed = operations(parallel_trace(search((5, 5, 8), 18, beam=20)).sequences[0].output)
    assert len(listed) == len({line.split(",")[0] for line in listed})
    assert sum("5+8=13" in line for line in listed) == 1


def test_no_value_exceeds_the_limit():
    """12*9 = 108 is left out at 100, and listed at 200."""
    for limit, expected in ((100, False), (200, True)):
        text = parallel_trace(search((9, 12, 2), 54, beam=20, max_value=limit)).sequences[0].output
        assert ("12*9=108" in text or "9*12=108" in text) == expected


def test_a_serial_search_ends_at_the_goal():
    """12+3=15, 15+5=20: nothing is explored after it but the summary path."""
    [only] = serial_trace(search(target=20)).sequences
    assert only.solved
    before, _, after = only.output.partition(f"20,20 {lines.GOAL}")
    assert len(operations(after)) == 2
    assert "20,20" not in before


def test_the_claim_after_a_join_is_one_line():
    """The parent states the outcome alone, since the path stands in the join."""
    ends = [parallel_trace(search(target=target)).sequences[-1].output for target in (20, 27)]
    assert ends == [f"\n20,20 {lines.GOAL}", f"\n{lines.NO_SOLUTION}"]


def test_four_numbers_are_searched_depth_first():
    """A child turns to each node of its own directly after the operation that leads to it."""
    child = parallel_trace(search((3, 5, 7, 12), 97, max_value=200)).sequences[1]
    written = child.output.split("\n")
    for place, line in enumerate(written):
        found = lines.EXPLORE_LINE.fullmatch(line)
        if found and len(lines.read_numbers(found["numbers"])) == 2:
            assert lines.MOVE_LINE.fullmatch(written[place + 1])
            assert lines.STATE_LINE.fullmatch(written[place + 2])
