"""Spawn blocks, results and joins of both styles; nodes and searches of the compact data."""

import pytest

from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.records import FinishReason
from pipeline_lib.seeding import child_random
from pipeline_lib.systems.apr.countdown import lines
from pipeline_lib.systems.apr.countdown.grammar import CountdownGrammar
from pipeline_lib.systems.apr.countdown.lines import estimate, make_root, successors
from pipeline_lib.systems.apr.countdown.tokens import make_tokenizer
from pipeline_lib.systems.apr.countdown.traces import (
    CompactSearch,
    compact_parallel_trace,
    compact_serial_trace,
    published_parallel_trace,
)
from pipeline_lib.systems.apr.runtime import keep
from pipeline_lib.systems.apr.threads import Child, TextTokens
from tests.unit.systems.apr.countdown.texts import GOLDEN, show

COMPACT = CountdownGrammar(style="compact")
PUBLISHED = CountdownGrammar(style="published")
PROBLEMS = [((3, 5, 12), 20), ((3, 5, 12), 27), ((4, 9, 17), 31), ((2, 8, 19), 35)]


def compact(numbers, target):
    return compact_parallel_trace(
        CompactSearch(numbers=numbers, target=target, beam=5, sub_beam=4, max_value=100)
    )


def published(numbers, target):
    return published_parallel_trace(
        (*numbers, 7), target, beam=4, sub_beam=3, branch=1.0, draw=child_random(5, "test", target)
    )


@pytest.mark.parametrize(("grammar", "trace"), [(COMPACT, compact), (PUBLISHED, published)])
@pytest.mark.parametrize(("numbers", "target"), PROBLEMS)
def test_a_trace_follows_from_its_own_texts(grammar, trace, numbers, target):
    """Prompts of the children and the parent's text after the join are those of the trace."""
    first, *children, last = trace(numbers, target).sequences
    spawn = grammar.find_spawn(first.prefix + first.output)
    assert spawn is not None
    assert [child.prompt for child in spawn.children] == [child.prefix for child in children]
    results = [grammar.read_result(child.output) for child in children]
    assert [result is not None for result in results] == [child.solved for child in children]
    assert grammar.join(spawn, results) == last.prefix
    assert grammar.find_spawn(last.prefix + last.output) is None


def spawning(*started: str, before: str = "Exploring Operation: 3+5=8, Resulting Numbers: [12, 8]"):
    head = "Moving to Node #0\nCurrent State: 20:[3, 5, 12], Operations: []"
    return "\n".join([head, before, lines.CALL, *started, lines.END_CALL])


START = "<Start Sub Search 0 at level 1> Moving to Node #"


def test_a_node_that_is_not_defined_has_no_prompt():
    """One operation is listed, so node 0,1 is unknown; so is a node of another root, and no node at all."""
    spawn = COMPACT.find_spawn(spawning(f"{START}0,0", f"{START}0,1", f"{START}3,1", "nonsense"))
    assert spawn is not None
    assert [child.name for child in spawn.children] == ["0,0", "0,1", "?", "?"]
    assert spawn.children[1:] == [Child(name=name, prompt=None) for name in ("0,1", "?", "?")]
    joined = COMPACT.join(spawn, [None] * 4)
    assert joined.endswith(
        "<No Solution in Sub Search 3 at level 1 at Node #?>\n<End Sub Searches>"
    )


def test_a_malformed_operation_keeps_its_place():
    """Child 1 is the second operation, whether or not the first can be read; the first has no prompt."""
    before = (
        "Exploring Operation: 3+5, Resulting Numbers: [12, 8]\n"
        "Exploring Operation: 5*12=60, Resulting Numbers: [3, 60]"
    )
    spawn = COMPACT.find_spawn(spawning(f"{START}0,0", f"{START}0,1", before=before))
    assert spawn is not None
    assert [child.prompt for child in spawn.children] == [
        None,
        "Moving to Node #0,1\nCurrent State: 20:[3, 60], Operations: ['5*12=60']",
    ]


@pytest.mark.parametrize(
    ("condition", "inherited"),
    [("Token Budget: 64 ", "Token Budget: 64 "), ("Sub Call Budget: 1 ", ""), ("", "")],
)
def test_children_inherit_a_token_budget_only(condition, inherited):
    """A budget of tokens holds for each sequence, a budget of children for the parent."""
    spawn = COMPACT.find_spawn(condition + spawning(f"{START}0,0"))
    assert spawn is not None
    assert spawn.children[0].prompt == (
        f"{inherited}Moving to Node #0,0\nCurrent State: 20:[12, 8], Operations: ['3+5=8']"
    )
    assert spawn.before.startswith(condition)


@pytest.mark.parametrize(
    "text",
    [
        spawning(f"{START}0,0") + "\nNo solution found.",
        spawning(f"{START}0,0").removesuffix(lines.END_CALL),
        f"Moving to Node #0\n{lines.END_CALL}",
        "",
    ],
)
def test_a_text_that_does_not_end_with_a_block_spawns_nothing(text):
    """Text behind the block, a block without its end, an end without a block."""
    assert COMPACT.find_spawn(text) is None


def test_a_result_needs_two_lines_of_success():
    """Tags of a join contain `Goal Reached`, and do not count."""
    one = "\n<Goal Reached in Sub Search 0 at level 1 at Node #0,0>\n20,20 equal: Goal Reached"
    assert COMPACT.read_result(one) is None
    two = "\n20,20 equal: Goal Reached\nExploring Operation: 8+12=20, Resulting Numbers: [20]\n20,20 equal: Goal Reached"
    assert COMPACT.read_result(two) == (
        "Exploring Operation: 8+12=20, Resulting Numbers: [20]\n20,20 equal: Goal Reached"
    )


def test_a_result_with_a_tag_is_none():
    """A child cannot write the tag of its sibling into the join."""
    forged = (
        "\n20,20 equal: Goal Reached\n<Goal Reached in Sub Search 1 at level 1 at Node #0,1>\n"
        "20,20 equal: Goal Reached"
    )
    assert COMPACT.read_result(forged) is None


def test_a_drawn_join_becomes_a_spawn():
    """The start of a join is forbidden, and the start of a spawn block takes its place."""
    assert dict(COMPACT.forbidden) == {
        "\n<Sub Searches>": "\n<Calling Sub Searches>",
        "<Sub Searches>": "<Calling Sub Searches>",
    }


def test_the_cut_before_a_drawn_join_keeps_the_ids():
    """The line feed before a join is part of its token: a cut behind it would be within the token."""
    tokenizer = make_tokenizer(3)
    written = "\nNo solution found."
    ids = tuple(tokenizer.encode(f"{written}\n<Sub Searches>\n").ids)
    completion = Completion(
        text=f"{written}\n<Sub Searches>\n",
        finish_reason=FinishReason.STOP,
        prompt_tokens=0,
        completion_tokens=len(ids),
        logprob=None,
        token_ids=ids,
    )
    tokens = TextTokens(encode=lambda text: tokenizer.encode(text).ids, decode=tokenizer.decode)
    kept = keep(completion, COMPACT, tokens)
    assert (kept.output, kept.forged) == (written, "\n<Sub Searches>")
    assert kept.ids == tuple(tokenizer.encode(written).ids)


def test_a_number_of_any_length_is_no_node():
    """Digits without end are refused by the pattern, before they are read as a number."""
    spawn = COMPACT.find_spawn(spawning(f"{START}0,{'9' * 5000}"))
    assert spawn is not None
    assert spawn.children[0].prompt is None


def search(numbers=(3, 5, 12), target=27, **options) -> CompactSearch:
    settings = {"beam": 3, "sub_beam": 4, "max_value": 100} | options
    return CompactSearch(numbers=numbers, target=target, **settings)


def test_the_texts_are_those_of_the_golden_file():
    """A problem that three children miss, and one that both searches solve, to the byte."""
    traces = [
        trace(search(target=target))
        for target in (27, 20)
        for trace in (compact_parallel_trace, compact_serial_trace)
    ]
    assert "".join(map(show, traces)) == (GOLDEN / "apr_compact.txt").read_text("utf-8")


def operations(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith(lines.EXPLORE)]


def test_no_operation_is_repeated():
    """5 and 5 make one sum with 8 each, of which one is listed."""
    listed = operations(compact_parallel_trace(search((5, 5, 8), 18, beam=20)).sequences[0].output)
    assert len(listed) == len({line.split(",")[0] for line in listed})
    assert sum("5+8=13" in line for line in listed) == 1


def test_no_value_exceeds_the_limit():
    """12*9 = 108 is left out at 100, and listed at 200."""
    for limit, expected in ((100, False), (200, True)):
        text = (
            compact_parallel_trace(search((9, 12, 2), 54, beam=20, max_value=limit))
            .sequences[0]
            .output
        )
        assert ("12*9=108" in text or "9*12=108" in text) == expected


def test_a_serial_search_ends_at_the_goal():
    """12+3=15, 15+5=20: nothing is explored after it but the summary path."""
    [only] = compact_serial_trace(search(target=20)).sequences
    assert only.solved
    before, _, after = only.output.partition(f"20,20 {lines.GOAL}")
    assert len(operations(after)) == 2
    assert "20,20" not in before


def test_the_claim_after_a_join_is_one_line():
    """The parent states the outcome alone, since the path stands in the join."""
    ends = [
        compact_parallel_trace(search(target=target)).sequences[-1].output for target in (20, 27)
    ]
    assert ends == [f"\n20,20 {lines.GOAL}", f"\n{lines.NO_SOLUTION}"]


def test_four_numbers_are_searched_depth_first():
    """A child turns to each node of its own directly after the operation that leads to it."""
    child = compact_parallel_trace(search((3, 5, 7, 12), 97, max_value=200)).sequences[1]
    written = child.output.split("\n")
    for place, line in enumerate(written):
        found = lines.EXPLORE_LINE.fullmatch(line)
        if found and len(lines.read_numbers(found["numbers"])) == 2:
            assert lines.MOVE_LINE.fullmatch(written[place + 1])
            assert lines.STATE_LINE.fullmatch(written[place + 2])


@pytest.mark.parametrize(
    ("numbers", "target", "expected"),
    [
        # Factors of 12 from 2 on: 2, 3, 4, 6, 12. |5-4| + |9-12| = 1 + 3, where 9-6 is as far.
        ((5, 9), 12, 4),
        # 1 is no factor here: |1-2| = 1.
        ((1,), 12, 1),
        # A prime has itself alone: |10-13| + |20-13| = 3 + 7.
        ((10, 20), 13, 10),
    ],
)
def test_the_heuristic_is_the_distance_to_factors(numbers, target, expected):
    """Each number adds its distance to the nearest factor of the target, of 2 or more."""
    assert estimate(numbers, target) == expected


def test_successors_are_all_operations_by_cost():
    """Two numbers have a sum, a product, a difference and an exact quotient; ties keep this order."""
    found = [
        (node.operation, node.numbers, node.cost) for node in successors(make_root((2, 8), 10), 10)
    ]
    # Factors of 10: 2, 5, 10. Costs: 10 -> 0, 4 -> 1, 6 -> 1, 16 -> 6.
    assert found == [
        ("2+8=10", (10,), 0),
        ("8-2=6", (6,), 1),
        ("8/2=4", (4,), 1),
        ("2*8=16", (16,), 6),
    ]


def test_the_result_comes_last():
    """The other numbers keep their order, and the result follows them."""
    by_operation = {node.operation: node.numbers for node in successors(make_root((3, 7, 5), 9), 9)}
    assert by_operation["3+7=10"] == (5, 10)
    assert by_operation["5-3=2"] == (7, 2)
    assert "7/5=1" not in by_operation


def test_zero_divides_nothing():
    """A difference of 0 leads to no quotient by it."""
    operations = [node.operation for node in successors(make_root((0, 4), 4), 4)]
    assert sorted(operations) == ["0*4=0", "0+4=4", "4-0=4"]
