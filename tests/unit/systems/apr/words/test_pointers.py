"""Spawn blocks that name parts: children, unknown parts, results, joins."""

import pytest

from pipeline_lib.systems.apr.words.grammars import PointerGrammar
from pipeline_lib.systems.apr.words.texts import ANSWER, TURN

QUESTION = "Two collect coins.\n(1) Ada has 4.\n(2) Ben has 5.\nHow many?"
GRAMMAR = PointerGrammar()


def children(block, question=QUESTION, grammar=GRAMMAR):
    spawn = grammar.find_spawn(f"{question}{ANSWER}<spawn>\n{block}\n</spawn>")
    return [(child.name, child.prompt) for child in spawn.children]


def test_a_child_gets_the_text_of_its_part():
    """Not the whole question, and in the order of the block."""
    assert children("2\n1") == [("2", f"Ben has 5.{ANSWER}"), ("1", f"Ada has 4.{ANSWER}")]


def test_a_parent_may_write_the_text_itself():
    """Behind the number of the part."""
    assert children("1: 4*6+9") == [("1: 4*6+9", f"4*6+9{ANSWER}")]


def test_a_child_may_get_the_whole_question():
    """With the number of its part."""
    [(_, prompt)] = children("2", grammar=PointerGrammar(whole_question=True))
    assert prompt == f"{QUESTION}\nPart (2){ANSWER}"


@pytest.mark.parametrize("line", ["3", "Ada", "1 2"])
def test_lines_that_name_no_part_have_no_prompt(line):
    """They are counted as unknown children; the others are drawn."""
    assert children(f"1\n{line}")[1:] == [(line, None)]


def test_examples_are_turns_before_a_child_and_no_parts_of_the_question():
    """The last message of the parent is the question; a child has examples of its own."""
    shown = f"{QUESTION}{TURN}<spawn>\n1\n</spawn>{TURN}"
    asked = f"{shown}{QUESTION.replace('Ada', 'Zoe')}"
    grammar = PointerGrammar(child_examples=f"Ada has 4.{TURN}4{TURN}")
    [(_, prompt)] = children("1", asked, grammar)
    assert prompt == f"Ada has 4.{TURN}4{TURN}Zoe has 4.{ANSWER}"


@pytest.mark.parametrize("answer", ["", "<spawn>", "<spawn>\n1", "<spawn></spawn>", "1\n</spawn>"])
def test_what_is_no_block_spawns_nothing(answer):
    """Such a thread has ended."""
    assert GRAMMAR.find_spawn(f"{QUESTION}{ANSWER}{answer}") is None


@pytest.mark.parametrize(
    ("output", "result"),
    [("4*6=24\n24+9=33", "33"), ("4*6=24+9=33", "33"), ("33\n", "33"), ("4*6=", None), ("", None)],
)
def test_a_result_is_behind_the_last_equals_sign(output, result):
    """Or the last line itself."""
    assert GRAMMAR.read_result(output) == result


def test_a_join_keeps_the_parents_text():
    """So the parent goes on from the keys of what it wrote; a child without a result joins as none."""
    text = f"{QUESTION}{ANSWER}<spawn>\n1\n2\n</spawn>"
    joined = GRAMMAR.join(GRAMMAR.find_spawn(text), ["4", None])
    assert joined == f"{text}\n<join>\n4\nnone\n</join>\n"
