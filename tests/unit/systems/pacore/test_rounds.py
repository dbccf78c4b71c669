"""Rounds: calls, seeds, references, early stop, cost; synthesis prompts replace the last user message alone."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.params.pacore import EarlyStop, PacoreParams, Rsa
from pipeline_lib.systems.pacore.drive import solve_in_lockstep
from pipeline_lib.systems.pacore.rounds import Calls, advance, solve
from pipeline_lib.systems.pacore.solution import (
    Question,
    summary_prompt,
    synthesis_in_words,
    synthesis_prompt,
)
from tests.unit.systems.pacore.scripted_chat import (
    TURNS,
    PlainTurns,
    last_turn,
    question,
    scripted,
    setting,
    text_of,
)

PLAIN_PROMPT = PlainTurns().render(TURNS)


def solved(params, answer=text_of, **changes):
    [solution] = solve_in_lockstep(scripted(answer), [question()], setting(params, **changes))
    return solution


def test_each_path_has_its_own_seed():
    """No seed occurs twice in a solution: equal prompts give independent paths."""
    seeds = []

    def answer(prompt, seed):
        seeds.append(seed)
        return text_of(prompt, seed)

    solved(PacoreParams(widths=(32, 4)), answer)
    assert len(set(seeds)) == len(seeds) == 37


def test_every_message_is_a_reference_of_the_next_round():
    """All four texts occur in the last prompt, in a seeded order that all paths share."""
    solution = solved(PacoreParams(widths=(4, 3)))
    first, second, _ = solution.rounds
    assert sorted(second.references[0]) == [0, 1, 2, 3]
    assert len({tuple(shown) for shown in second.references}) == 1
    assert first.messages == [one.text for one in first.completions]


def test_the_order_of_references_depends_on_question_and_round():
    """Orders differ between questions; the same question has the same one again."""
    model, asked = scripted(), [question(str(number)) for number in range(20)]
    solutions = solve_in_lockstep(model, asked, setting(PacoreParams(widths=(4,))))
    orders = {tuple(solution.rounds[1].references[0]) for solution in solutions}
    assert len(orders) > 5
    again = solve_in_lockstep(model, asked[:1], setting(PacoreParams(widths=(4,))))
    assert again[0] == solutions[0]


def test_failed_calls_are_no_references_and_are_counted():
    """Two of four calls fail: two references, two failures, and no empty candidate in the prompt."""
    prompts = []

    def answer(prompt, seed):
        prompts.append(prompt)
        return None if len(prompts) in {1, 3} else text_of(prompt, seed)

    solution = solved(PacoreParams(widths=(4,)), answer)
    assert solution.rounds[0].num_failed == solution.cost.failed_calls == 2
    assert sorted(solution.rounds[1].references[0]) == [1, 3]
    assert "2 candidate solutions" in last_turn(prompts[-1])


def test_after_a_failed_round_the_plain_question_is_asked():
    """The prompt of the next round equals the question byte by byte."""
    prompts = []

    def answer(prompt, seed):
        prompts.append(prompt)
        return None if len(prompts) <= 4 else text_of(prompt, seed)

    solution = solved(PacoreParams(widths=(4, 2)), answer)
    assert prompts[4] == prompts[5] == PLAIN_PROMPT
    assert solution.rounds[1].references == [[], []]
    assert "2 candidate solutions" in last_turn(prompts[6])


def test_a_path_without_a_message_is_no_reference():
    """Compaction gives None for it; the path itself has not failed."""
    texts = iter(["", "a", "b", "no message", "c"])
    solution = solved(
        PacoreParams(widths=(4,)),
        lambda _prompt, _seed: next(texts),
        message_of=lambda text: None if text == "no message" else text,
    )
    first, last = solution.rounds
    assert first.messages == [None, "a", "b", None]
    assert first.num_failed == 0
    assert sorted(last.references[0]) == [1, 2]


@given(fitting=st.integers(min_value=0, max_value=6))
def test_references_that_do_not_fit_are_dropped_from_the_end(fitting):
    """With room for k of 6, the first k of the order are shown whole and 6 - k are counted."""
    params = PacoreParams(widths=(6,))
    free = solved(params).rounds[1]
    tight = solved(params, fits=lambda prompt: prompt.count("Candidate solution ") <= fitting)
    last = tight.rounds[1]
    assert last.references[0] == free.references[0][:fitting]
    assert last.dropped == 6 - fitting


def test_an_early_stop_sends_no_more_calls():
    """Groups of 3 of a width of 9; all answers equal: 3 calls, and the synthesis follows."""
    params = PacoreParams(widths=(9,), early_stop=EarlyStop(minimum=3, share=1.0))
    solution = solved(params, lambda _prompt, _seed: "a b")
    assert [len(drawn.completions) for drawn in solution.rounds] == [3, 1]
    assert solution.rounds[0].width == 9


def test_without_agreement_the_round_is_complete():
    """Groups of 2 of a width of 5: a share that is never reached asks for all 5."""
    params = PacoreParams(widths=(5,), early_stop=EarlyStop(minimum=2, share=0.9))
    letters = iter("abcdefgh")
    solution = solved(params, lambda _prompt, _seed: next(letters))
    assert len(solution.rounds[0].completions) == 5


def test_groups_of_an_early_stop_are_sequential():
    """Texts of 2 words: a round of 4 in groups of 2 has a critical path of 4, without groups of 2."""
    letters = "abcdefghijkl"
    count = iter(range(100))

    def answer(_prompt, _seed):
        return f"{letters[next(count)]} x"

    stop = EarlyStop(minimum=2, share=1.0)
    in_groups = solved(PacoreParams(widths=(4,), early_stop=stop), answer)
    assert in_groups.cost.critical_tokens == 4 + 2
    count = iter(range(100))
    together = solved(PacoreParams(widths=(4,)), answer)
    assert together.cost.critical_tokens == 2 + 2
    assert in_groups.cost.completion_tokens == together.cost.completion_tokens == 10


def test_a_vote_ends_with_the_last_round():
    """The rounds of the synthesis, seeds and models included, without the last call; summaries of voters are none."""
    widths, stop = (4, 3), EarlyStop(minimum=3, share=1.0)
    params = PacoreParams(widths=widths, early_stop=stop)
    decodings = {
        "last_decoding": Decoding(temperature=0.0, max_new_tokens=50),
        "models": ("A", "B"),
    }
    synthesis = solved(params, **decodings)
    voted = solved(
        PacoreParams(widths=widths, early_stop=stop, final="vote"),
        elect=lambda drawn: len(drawn) - 1,
        **decodings,
    )
    assert [one.completions for one in voted.rounds] == [
        one.completions for one in synthesis.rounds[:2]
    ]
    assert voted.rounds[1].messages == [None] * 3
    assert voted.answers == [synthesis.rounds[1].completions[2]]


def test_aggregation_draws_a_subset_for_each_path():
    """Population 6, subsets of 2, 3 steps: 19 calls; the first step is plain, the others see 2 each."""
    params = PacoreParams(rsa=Rsa(population=6, subset=2, steps=3))
    solution = solved(params)
    assert [len(drawn.completions) for drawn in solution.rounds] == [6, 6, 6, 1]
    assert solution.rounds[0].references == [[]] * 6
    for drawn in solution.rounds[1:]:
        assert {len(set(shown)) for shown in drawn.references} == {2}
    assert len({frozenset(shown) for shown in solution.rounds[1].references}) > 1


def test_summaries_are_calls_of_their_own():
    """Compaction by the model: 4 paths, 4 summaries, 1 synthesis, which sees the summaries alone."""
    prompts = []

    def answer(prompt, seed):
        prompts.append(prompt)
        return f"{len(json.loads(prompt))} {text_of(prompt, seed)}"

    short = Decoding(temperature=1.0, max_new_tokens=20)
    solution = solved(PacoreParams(widths=(4,)), answer, summary=short)
    assert solution.cost.calls == 9
    # A summary's prompt has two turns more: the path and the request.
    assert all(message.startswith("6 ") for message in solution.rounds[0].messages)
    assert all(message in last_turn(prompts[-1]) for message in solution.rounds[0].messages)
    # Two words a text: paths, summaries and synthesis follow each other.
    assert solution.cost.critical_tokens == 6


def test_a_summary_without_room_is_not_asked_for():
    """Summary prompts of 2 of 4 paths fit: 4 paths, 2 summaries, a synthesis of 2 references; none fit: 5 calls."""
    short = Decoding(temperature=1.0, max_new_tokens=20)
    params = PacoreParams(widths=(4,))
    paths = solved(params).rounds[0].completions

    def fits(prompt):
        return paths[1].text in prompt or paths[2].text in prompt

    solution = solved(params, summary=short, summary_fits=fits)
    first, last = solution.rounds
    assert [message is not None for message in first.messages] == [False, True, True, False]
    assert (first.num_failed, sorted(last.references[0]), solution.cost.calls) == (0, [1, 2], 7)
    nothing = solved(params, summary=short, summary_fits=lambda _prompt: False)
    assert (nothing.rounds[0].messages, nothing.cost.calls) == ([None] * 4, 5)


def test_cost_by_hand():
    """Low: prompts of 12 words once, texts of one word: 4 + 1 drawn, 2 in sequence."""
    solution = solved(PacoreParams(widths=(4,)))
    first, last = solution.rounds
    assert first.cost.prompt_tokens == len(PLAIN_PROMPT.split())
    assert solution.cost.prompt_tokens == first.cost.prompt_tokens + last.cost.prompt_tokens
    assert solution.cost.completion_tokens == 5
    assert solution.cost.critical_tokens == 2


def test_the_answer_has_a_decoding_of_its_own():
    """The last of three rounds; a single round is drawn as the paths of others are."""
    last = Decoding(temperature=0.0, max_new_tokens=50)
    temperatures = []
    for widths in ((3, 2), ()):
        exchange = solve(question(), setting(PacoreParams(widths=widths), last_decoding=last))
        calls = advance(exchange, None)
        while isinstance(calls, Calls):
            temperatures.append(calls.decoding.temperature)
            calls = advance(exchange, scripted().complete(calls.requests, calls.decoding))
    assert temperatures == [1.0, 1.0, 0.0, 1.0]


def test_given_responses_are_the_first_round():
    """One call, whose prompt has all three as references; they cost nothing."""
    prompts = []

    def answer(prompt, seed):
        prompts.append(prompt)
        return text_of(prompt, seed)

    asked = Question(id="q", conversation=TURNS, responses=("one", "two", "three"))
    plan = setting(PacoreParams(widths=(4,)))
    [solution] = solve_in_lockstep(scripted(answer), [asked], plan)
    first, last = solution.rounds
    assert first.messages == ["one", "two", "three"]
    [prompt] = prompts
    shown = [first.messages[path] for path in last.references[0]]
    assert sorted(shown) == ["one", "three", "two"]
    assert last_turn(prompt) == synthesis_in_words(TURNS[-1].content, shown)
    assert solution.cost == last.cost
    assert solution.cost.calls == 1


REFERENCES = [(2, "It is 42."), (0, "It is 41.")]


def test_problem_and_references_in_the_given_order():
    """The question comes first, then the references, numbered from 1."""
    text = synthesis_prompt(TURNS, REFERENCES, PlainTurns())[-1].content
    places = [
        text.index(part)
        for part in (
            "What is 6 times 7?",
            "Candidate solution 1:\nIt is 42.",
            "Candidate solution 2:\nIt is 41.",
        )
    ]
    assert places == sorted(places)
    assert "2 candidate solutions" in text


def test_the_compact_form():
    """Question, numbered references and an exclamation mark, a line each, without words."""
    prompt = synthesis_prompt(TURNS, REFERENCES, PlainTurns(is_compact=True))
    assert prompt[-1].content == "What is 6 times 7?\n#1\nIt is 42.\n#2\nIt is 41.\n!"


def test_a_summary_follows_the_path():
    """The path is the model's own turn, and the request the user's."""
    prompt = summary_prompt(TURNS, "6 times 7 is 42.")
    assert prompt[: len(TURNS)] == TURNS
    assert [turn.role.value for turn in prompt[len(TURNS) :]] == ["assistant", "user"]
    assert prompt[-2].content == "6 times 7 is 42."
