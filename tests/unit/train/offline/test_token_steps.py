"""Steps by tokens, and passes of similar lengths."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.train.offline.token_steps import cut_passes, padded_length, plan_steps

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=30)


@given(LENGTHS, st.integers(1, 400), st.integers(40, 120), st.integers(0, 5))
def test_steps_hold_the_tokens_that_were_asked_for(lengths, tokens, step_tokens, seed):
    """No step is above its bound, all together reach the length, and without the last one they do not."""
    plan = plan_steps(lengths, tokens=tokens, step_tokens=step_tokens, seed=seed)
    held = [sum(lengths[place] for place in step) for step in plan.steps]
    assert max(held) <= step_tokens
    assert sum(held) == plan.tokens >= tokens
    assert sum(held[:-1]) < tokens


@given(LENGTHS, st.integers(0, 5))
def test_each_turn_takes_all_sequences(lengths, seed):
    """The first n places of the order are all n sequences, and so are the next n."""
    plan = plan_steps(lengths, tokens=3 * sum(lengths), step_tokens=40, seed=seed)
    order = [place for step in plan.steps for place in step]
    count = len(lengths)
    assert sorted(order[:count]) == sorted(order[count : 2 * count]) == list(range(count))


def test_the_seed_decides_the_order():
    """Two seeds, two orders; a longer training begins with the steps of a shorter one."""
    short, long = [
        plan_steps([3] * 50, tokens=tokens, step_tokens=9, seed=1).steps for tokens in (60, 300)
    ]
    assert long[: len(short)] == short
    assert plan_steps([3] * 50, tokens=60, step_tokens=9, seed=2).steps != short


@given(LENGTHS, st.integers(1, 200))
def test_passes_are_bounded_with_their_padding(lengths, pass_tokens):
    """Each sequence is in one pass; a pass of several has at most `pass_tokens` in its rectangle."""
    passes = cut_passes(lengths, pass_tokens=pass_tokens)
    assert sorted(place for some in passes for place in some) == list(range(len(lengths)))
    for some in passes:
        assert (
            len(some) == 1
            or len(some) * padded_length(max(lengths[i] for i in some)) <= pass_tokens
        )


def test_short_sequences_are_not_padded_to_long_ones():
    """One of 200 and eight of 30 in passes of 256: eight together take 8 x 32, and one alone 208."""
    passes = cut_passes([30] * 4 + [200] + [30] * 4, pass_tokens=256)
    assert [len(some) for some in passes] == [1, 8]
