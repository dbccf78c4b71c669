"""The tokenizer of Countdown threads."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline_lib.seeding import child_random
from pipeline_lib.systems.apr.countdown.published import parallel_trace, serial_trace
from pipeline_lib.systems.apr.countdown.tokens import count_tokens, make_tokenizer
from tests.unit.systems.apr.countdown.texts import GOLDEN

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
    """What is drawn after a prefix continues its tokens, so that training sees what sampling sees."""
    tokenizer = make_tokenizer(4)
    traces = [
        parallel_trace(
            (3, 7, 22, 50), 91, beam=3, sub_beam=3, branch=1.0, draw=child_random(seed, "test")
        ),
        serial_trace((3, 7, 22, 50), 91, beam=3, branch=0.5, draw=child_random(seed, "test")),
    ]
    for one in (one for trace in traces for one in trace.sequences):
        parts = tokenizer.encode(one.prefix).ids + tokenizer.encode(one.output).ids
        assert parts == tokenizer.encode(one.prefix + one.output).ids
