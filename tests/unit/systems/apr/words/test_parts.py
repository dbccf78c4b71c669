"""Questions in parts: their numbers, their traces, and that the runtime reads what the traces say."""

import itertools
import re

import pytest

from pipeline_lib.params.apr import PartsParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.systems.apr.words.grammars import PointerGrammar
from pipeline_lib.systems.apr.words.parts import KINDS, combined, questions, trace_rows
from pipeline_lib.systems.apr.words.task import PART_RIGHT, RIGHT_PARTS, WELL_FORMED, WordsTask
from pipeline_lib.systems.apr.words.texts import ANSWER
from tests.unit.systems.apr.word_draws import WORDS, WordDraws, roll

PARAMS = PartsParams(facts=0)


def made(split, count=60, **changes):
    params = PARAMS.model_copy(update=changes)
    return questions(params, split=split, seed=3, count=count)


def numbers_of(problem):
    """The number sets of its parts, read from their sentences."""
    sentences = PointerGrammar().parts(problem.question).values()
    return {tuple(sorted(map(int, re.findall(r"\d+", one)))) for one in sentences}


def replayed(expression):
    """The value of an expression of at most one product, which comes first."""
    first, *signed = re.findall(r"[+-]?[\d*]+", expression)
    a, _, b = first.partition("*")
    return int(a) * int(b or 1) + sum(map(int, signed))


def is_true(line):
    """Each result of a line is right: of a chain as in ``28: 34+20=54+8=62``, or the largest or smallest so far."""
    first, _, told = line.rpartition(": ")
    picks = {"l": max, "s": min}.get(line[0])
    if picks is not None:
        values, found = ([int(one) for one in re.findall(r"\d+", part)] for part in (first, told))
        return found == [picks(values[:number]) for number in range(1, len(values) + 1)]
    *steps, last = told.split("=")
    return [replayed(one) for one in steps] == [
        int(re.match(r"\d+", one)[0]) for one in (*steps[1:], last)
    ]


def test_numbers_of_test_questions_are_in_no_training_question():
    """In any order; wordings of the further split are in no other."""
    train, valid, test, new = (made(one) for one in ("train", "valid", "test", "wordings"))
    seen = set().union(*map(numbers_of, [*train, *valid]))
    assert seen.isdisjoint(set().union(*map(numbers_of, [*test, *new])))
    assert not any("crates" in one.question for one in [*train, *valid, *test])
    assert any("crates" in one.question for one in new)


def test_answers_are_those_of_the_sentences():
    """Each expression has the numbers of its sentence, and the steps its values; all answers are combined from them."""
    asked = set()
    for problem in made("train"):
        facts = problem.columns
        for sentence, expression, steps, value in zip(
            PointerGrammar().parts(problem.question).values(),
            facts["expressions"],
            facts["steps"],
            facts["values"],
            strict=True,
        ):
            assert re.findall(r"\d+", sentence) == re.findall(r"\d+", expression)
            assert all(
                replayed(left) == int(right) for left, right in (s.split("=") for s in steps)
            )
            assert replayed(expression) == value
            assert 10 <= value <= 49
            assert PARAMS.steps_low <= len(steps) <= PARAMS.steps_high
        assert problem.gold.answer == str(combined(facts["asked"], facts["values"]))
        asked.add((facts["asked"], len(facts["values"])))
    assert asked == set(itertools.product(("sum", "difference", "largest"), range(2, 6)))


def test_a_split_does_not_depend_on_its_size_or_on_another():
    """Question n is drawn by the seed and its number."""
    assert made("test", 20) == made("test", 60)[:20]
    assert made("test", 20) != made("valid", 20)


@pytest.mark.parametrize("child", ["sentence", "expression", "question"])
def test_traces_are_what_the_runtime_makes_of_them(child):
    """Children have the prompts that the block asks for, and the last segment the join of their results."""
    params = PARAMS.model_copy(update={"child": child, "terse_children": child == "expression"})
    grammar = PointerGrammar(whole_question=child == "question")
    for problem in made("train", 20, child=child):
        first, *children, last = trace_rows(problem, "parallel", params)
        spawn = grammar.find_spawn(first["prefix"] + first["output"])
        assert [one.prompt for one in spawn.children] == [one["prefix"] for one in children]
        results = [grammar.read_result(one["output"]) for one in children]
        assert results == [*map(str, problem.columns["values"])]
        assert grammar.join(spawn, results) == last["prefix"]
        assert last["output"].endswith(f"\\boxed{{{problem.gold.answer}}}")


def test_gates_are_of_the_first_spawn():
    """A model that was not trained may spawn again, and then more children than at first."""
    [problem] = made("train", 1)
    _, *children, last = trace_rows(problem, "parallel", PARAMS)
    numbers = range(1, len(children) + 1)
    texts = {one["prefix"]: one["output"] for one in children}
    root = text = problem.question + ANSWER
    for named in ([1], numbers):
        texts[text] = "<spawn>\n" + "".join(f"{one}\n" for one in named) + "</spawn>"
        spawn = PointerGrammar().find_spawn(text + texts[text])
        text = PointerGrammar().join(
            spawn, [str(problem.columns["values"][one - 1]) for one in named]
        )
    texts[text] = last["output"]
    draws = WordDraws(texts=texts)
    rollout = roll(draws, root, grammar=PointerGrammar())
    assert len(rollout.sequences) == 4 + len(numbers)
    task = WordsTask(grammar=PointerGrammar(), tokens=WORDS, wire=str, verify=VerifyParams())
    [judged] = task.judge([rollout], {"p": problem})
    assert judged.is_right
    assert judged.measures == {WELL_FORMED: 1, RIGHT_PARTS: 0, PART_RIGHT: 1 / len(numbers)}


def test_every_kind_has_the_same_facts():
    """Last steps of as many answers and single steps, of values that are in no message, with their true results."""
    params = PARAMS.model_copy(update={"facts": 6})
    for problem in made("train", 20):
        facts = [[*trace_rows(problem, kind, params)][-1] for kind in KINDS]
        assert facts == [facts[0]] * len(KINDS)
        lines = facts[0]["output"].split("\n")
        assert len([one for one in lines if re.match("sum|largest", one)]) == 6
        assert all(is_true(one) for one in lines if not one.startswith("sum"))
        assert not re.search(r"\d", facts[0]["prefix"])


@pytest.mark.parametrize("asked", ["sum", "difference", "largest"])
def test_last_steps_lead_to_the_answer(asked):
    """They begin with the values of all parts, and no step has two numbers of two digits but for tens."""
    for problem in made("train"):
        if problem.columns["asked"] == asked:
            *lines, answer = [*trace_rows(problem, "parallel", PARAMS)][-1]["output"].split("\n")
            values = problem.columns["values"]
            assert [int(one) for one in re.findall(r"\d+", lines[0])][: len(values)] == values
            assert all(is_true(one) for one in lines if not one.startswith("sum"))
            assert answer == f"\\boxed{{{re.findall(r'[0-9]+', lines[-1])[-1]}}}"
            added = [int(one) for one in re.findall(r"[+-](\d+)", "".join(lines))]
            assert all(one < 10 or one % 10 == 0 for one in added)
            steps = {"sum": len(values), "difference": 3, "largest": 1}
            assert len(lines) == steps[asked]


def test_serial_traces_have_the_same_calculations():
    """One sequence each, from the same prompt; the terse one has no sentence."""
    for problem in made("train", 20):
        traces = {kind: [*trace_rows(problem, kind, PARAMS)] for kind in KINDS}
        [serial], [terse] = traces["serial"], traces["terse"]
        assert serial["prefix"] == terse["prefix"] == problem.question + ANSWER
        steps = [*itertools.chain.from_iterable(problem.columns["steps"])]
        lines = serial["output"].split("\n")
        assert [one for one in lines if one in steps] == steps
        assert all(one in serial["output"] for one in problem.question.split("\n")[1:-1])
        chains = terse["output"].split("\n")[: len(problem.columns["steps"])]
        results = re.findall(r"=(\d+)", "\n".join(chains))
        assert results == [one.rpartition("=")[2] for one in steps]
        last = lines[-1]
        assert terse["output"].endswith(f"\n{last}")
