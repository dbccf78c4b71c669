"""Token counts of a rollout, worked out by hand; a token is a word, and each draw ends with an end token."""

from benchmarks.lib.scripted_threads import BracketGrammar
from pipeline_lib.sampling.compute_cost import Cost
from tests.unit.systems.apr.word_draws import WordDraws, roll

TEXTS = {
    "parent 0": " x [ 0.0 0.1 ]",
    "child 0.0": " a b c 7!",
    "child 0.1": " none",
    "parent 0 x ( 7! - )": " d e",
}


def test_the_four_counts_of_one_round():
    """Parent: 5 words + end = 6, then 2 + end = 3. Children: 4 + end = 5, and 1 + end = 2.

    - drawn 6 + 5 + 2 + 3 = 16; critical 6 + max(5, 2) + 3 = 14
    - total: parent 2 + 6 = 8; children 2 + 5 = 7 and 2 + 2 = 4; the second segment has a prompt of 7 words
      (parent 0 x ( 7! - )), of which parent 0 x is counted already: 7 + 3 - 3 = 7. In all 26.
    - longest: the second segment with its prompt, 7 + 3 = 10
    """
    rollout = roll(WordDraws(texts=TEXTS))
    assert rollout.cost == Cost(
        calls=4,
        prompt_tokens=2 + 2 + 2 + 7,
        completion_tokens=16,
        critical_tokens=14,
        longest_tokens=6,
    )
    assert (rollout.total_tokens, rollout.longest_tokens) == (26, 10)


def test_the_start_token_counts_with_each_prompt():
    """<s> precedes the parent's and both children's prompts, and is shared by the second segment: 26 + 3."""
    texts = {f"<s> {prompt}": text for prompt, text in TEXTS.items()}
    rollout = roll(WordDraws(texts=texts), begin="<s> ")
    assert (rollout.total_tokens, rollout.longest_tokens) == (29, 11)


def test_rounds_follow_each_other():
    """Two rounds: critical 4 + 2 + 4 + 5 + 2, since the second round's children wait for the first join.

    Round 1: " [ 1 ]" and end, 4 tokens; its child " none", 2. Round 2: 4 tokens; its child 4 + end = 5.
    The last segment " d": 2.
    """
    texts = {
        "parent 0": " [ 1 ]",
        "child 1": " none",
        "parent 0 ( - )": " [ 2 ]",
        "child 2": " a b c 7!",
        "parent 0 ( - ) ( 7! )": " d",
    }
    rollout = roll(WordDraws(texts=texts))
    assert rollout.cost.critical_tokens == rollout.cost.completion_tokens == 17
    assert [one.round for one in rollout.sequences] == [0, 0, 1, 1, 2]


def test_a_forged_join_costs_what_was_drawn():
    """`` a (`` is drawn, 2 tokens, of which 1 is kept; `` 1 ]`` and end are 3; child 2; `` c`` and end 2.

    Total: 2 + 1; the further sequence 4 + 3 less the 3 that are counted; child 2 + 2; the last segment
    "parent 0 a ( - )" 6 + 2 less 3. In all 3 + 4 + 4 + 5 = 16.
    """
    texts = {
        "parent 0": " a ( 9! )",
        "parent 0 a [": " 1 ]",
        "child 1": " none",
        "parent 0 a ( - )": " c",
    }
    rollout = roll(WordDraws(texts=texts), grammar=BracketGrammar(forbidden={" (": " ["}))
    assert rollout.cost.completion_tokens == rollout.cost.critical_tokens == 2 + 3 + 2 + 2
    assert rollout.total_tokens == 16


def test_a_failed_child_costs_its_draws_and_has_no_tokens():
    """Child 1 spawns, and its second draw fails: 3 + 1 calls, one failed; drawn tokens are those of all.

    Parent 4 + 2; child 1 4 (`` [ 2 ]`` and end); child 2 2. The total has the parent's alone:
    2 + 4, and "parent 0 ( - )" 5 + 2 less 2.
    """
    texts = {
        "parent 0": " [ 1 ]",
        "child 1": " [ 2 ]",
        "child 2": " none",
        "child 1 ( - )": None,
        "parent 0 ( - )": " c",
    }
    rollout = roll(WordDraws(texts=texts), limits={"depth": 2})
    assert (rollout.cost.calls, rollout.cost.failed_calls) == (5, 1)
    assert rollout.cost.completion_tokens == 4 + 4 + 2 + 2
    assert (len(rollout.sequences), rollout.total_tokens) == (2, 11)
