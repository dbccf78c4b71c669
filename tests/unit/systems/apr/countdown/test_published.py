"""The searches of the published data, and the tokenizer of threads."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline_lib.seeding import child_random
from pipeline_lib.systems.apr.countdown import lines
from pipeline_lib.systems.apr.countdown.tokens import count_tokens, make_tokenizer
from pipeline_lib.systems.apr.countdown.traces import (
    published_parallel_trace,
    published_serial_trace,
)
from tests.unit.systems.apr.countdown.texts import GOLDEN, show

NUMBERS, TARGET = (22, 26, 31, 53), 27


def parallel(seed: int = 1, **options):
    settings = {"beam": 2, "sub_beam": 2, "branch": 1.0} | options
    return published_parallel_trace(NUMBERS, TARGET, draw=child_random(seed, "test"), **settings)


def test_the_texts_are_those_of_the_golden_file():
    """A parallel and a serial trace of the published example, to the byte."""
    serial = published_serial_trace(
        NUMBERS, TARGET, beam=2, branch=0.5, draw=child_random(1, "test")
    )
    shown = show(parallel()) + "=== serial\n" + show(serial)
    assert shown == (GOLDEN / "apr_published.txt").read_text("utf-8")


def test_children_are_spawned_in_order_of_the_heuristic():
    """Operations are printed shuffled; the children of a spawn are sorted by their cost again."""
    orders = set()
    for seed in range(8):
        first, *children, _ = parallel(seed, beam=4).sequences
        printed = [line for line in first.output.split("\n") if line.startswith(lines.EXPLORE)]
        orders.add(tuple(printed))
        states = [child.prefix.split("\n")[1] for child in children]
        # The four best are 53-22 (31, cost 13), 53-26 (27), 31-26 (5) and 31-22 (9), in an order by cost.
        costs = [_cost(state) for state in states]
        assert costs == sorted(costs)
    assert len(orders) > 1


def _cost(state: str) -> int:
    found = lines.STATE_LINE.fullmatch(state)
    assert found is not None
    # Factors of 27 from 2 on: 3, 9, 27.
    return sum(
        min(abs(number - factor) for factor in (3, 9, 27))
        for number in lines.read_numbers(found["numbers"])
    )


def test_children_spawn_no_more():
    """Only texts of the parent contain a spawn block."""
    assert all(lines.CALL not in one.output for one in parallel().sequences if one.role == "child")


@pytest.mark.parametrize("branch", [0.0, 1.0])
def test_the_search_goes_on_without_a_spawn(branch):
    """With probability 0 the parent is one sequence; with 1 a spawn follows its first node."""
    trace = parallel(branch=branch)
    assert list(trace.spawned) == ([] if branch == 0 else [2])
    assert len(trace.sequences) == (1 if branch == 0 else 4)


def test_one_node_is_not_worth_a_spawn():
    """A beam of 1 leaves one node, which joins the open set."""
    assert list(parallel(beam=1).spawned) == []


def test_a_serial_trace_shares_its_beam_at_all_depths():
    """Each state is followed by at most ``beam`` operations."""
    text = published_serial_trace(
        (3, 7, 11, 13), 97, beam=2, branch=0.5, draw=child_random(3, "test")
    ).sequences[0]
    blocks = (text.prefix + text.output).split("Current State")[1:]
    assert max(block.count(lines.EXPLORE) for block in blocks) == 2


TEXTS = [(GOLDEN / name).read_text("utf-8") for name in ("apr_compact.txt", "apr_published.txt")]


@given(st.one_of(st.text(), st.text(alphabet="\n<>0123456789,#[] Sub'Nodeg:")))
@example(TEXTS[0])
@example(TEXTS[1])
@example("<eos> <pad>\r\n 007 ١٢ 12345 \x00")
def test_any_text_is_restored(text):
    """decode(encode(text)) == text."""
    tokenizer = make_tokenizer(3)
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@pytest.mark.parametrize(("num_numbers", "largest"), [(3, 300), (4, 999)])
def test_numbers_are_tokens_up_to_a_limit(num_numbers, largest):
    """The largest number is one token, the next one its digits."""
    digits = len(str(largest + 1))
    assert count_tokens(str(largest), num_numbers=num_numbers) == 1
    assert count_tokens(str(largest + 1), num_numbers=num_numbers) == digits


def test_a_line_of_a_final_operation_takes_nine_tokens():
    """Phrase, 12, +, 8, =, 20, phrase, 20 and ]."""
    line = "\nExploring Operation: 12+8=20, Resulting Numbers: [20]"
    assert count_tokens(line, num_numbers=3) == 9


@pytest.mark.parametrize("seed", range(4))
def test_prefix_and_output_have_the_tokens_of_the_whole(seed):
    """Prefix and output are tokenized separately when drawn, together when trained: both give the same tokens."""
    tokenizer = make_tokenizer(4)
    traces = [
        published_parallel_trace(
            (3, 7, 22, 50), 91, beam=3, sub_beam=3, branch=1.0, draw=child_random(seed, "test")
        ),
        published_serial_trace(
            (3, 7, 22, 50), 91, beam=3, branch=0.5, draw=child_random(seed, "test")
        ),
    ]
    for one in (one for trace in traces for one in trace.sequences):
        parts = tokenizer.encode(one.prefix).ids + tokenizer.encode(one.output).ids
        assert parts == tokenizer.encode(one.prefix + one.output).ids
