r"""Generated pairs for the math verifier: sentences for the lenient rules."""

import itertools
from collections.abc import Iterator

from benchmarks.lib.math_pairs.pair import Pair

DENIALS = (
    "not {0}", "not equal to {0}", "never {0}", "anything but {0}", "definitely not {0}", "no longer {0}",
    "less than {0}", "more than {0}", "at most {0}", "at least {0}", "greater than {0}", "over {0}", "under {0}",
    "fewer than {0}",
    "between {0} and {1}", "between {1} and {0}", "half of {0}", "twice {0}", "double {0}", "a third of {0}",
    "the square root of {0}",
    "maybe {0}, maybe {1}", "maybe {1}, maybe {0}", "{0} or {1}", "{1} or {0}", "either {1} or {0}", "perhaps {0}",
    "possibly {0}",
    "probably {0}", "about {0}", "around {0}", "approximately {0}", "roughly {0}", "negative {0}", "minus {0}",
    "{0} times 2", "{0} plus 1", "{0} minus 1", "{0} squared", "{0} factorial", "{0} and {1}", "{1} and {0}",
    "1, 2, {1}, {0}", "{0}, {1}, {2}",
    "{0} unless it rains", "{0} if x is even", "somewhere near {0}", "up to {0}", "{0} more than {1}",
    "{0} less than {1}", "{0} halves",
    "neither {0} nor {1}", "{0} divided by 2", "almost {0}", "nearly {0}", "the opposite of {0}",
    "the inverse of {0}", "10 to the {0}",
    "{0} or so", "{0} thousand", "{0} million", "{0} dozen", "cos {0}", "something like {0}", "{0}?",
)  # fmt: skip
FRAMES = ("The answer is {}.", "#### {}", "Final answer: {}", "So the result is {}.", "A: {}")
BARE = (
    "It is not {0}.", "It isn't {0}.", "It cannot be {0}.", "I doubt that it is {0}.", "It might be {0}.",
    "It could be {0}.", "I am not sure, {0}?",
    "I guess {0}.", "We can rule out {0}.", "This is wrong: {0}.", "{0} is not the answer.", "{0} is wrong.",
    "{0} is incorrect.", "It can't be {0}.",
    "The answer isn't {0}.", "The answer is unknown, but not {0}.", "The answer cannot be {0}.",
    "The answer could be {0}.", "The answer might be {0}.",
    "The answer is wrong: {0}.", "1 2 3 4 {0}", "The candidates are {1}, {2}, {0}", "It is {1} or {0}",
    "Numbers: 1, 2, 3, 4, {0}", "The answer must not be {0}.",
    "It does not equal {0}.", "The answer doesn't equal {0}.", "The answer was {1} but could also be {0}",
    "Pick any of 1, 3, {1}, {0}",
)  # fmt: skip
PLAIN = (
    "The answer is {0}.", "#### {0}", "Final answer: {0}", "A: {0}", "The answer is {0} dollars.",
    "#### She has {0} apples.", "**Answer:** {0}",
    "Therefore, he pays {0} dollars.", "3 + 4 = 7\nThe answer is {0}", "The answer is: ${0}$.",
    "The answer is \\({0}\\) meters.", "So she needs {0} eggs.",
    "#### {0} cm", "x = {0}", "Hence it is {0}.", "The final answer is **{0}**.", "The total is {0}.",
)  # fmt: skip
EQUATIONS = (
    "20 + {0} - 20 = {0}\n#### It takes {0} days to write 3 books.",
    "2 * {0} / 2 = {0}\n#### In 20 weeks the profit is ${0}.",
    "So 1 * {0} = {0}.\n#### Of 900 people {0} came.",
    "They have {0} - 0 = {0} left.\n#### With 800 more to come, {0} are left now.",
)


def misread_sentences() -> Iterator[Pair]:
    """Negation, comparison, sign words, hedges, several candidates around the right number."""
    for number, frame, words in itertools.product(("5", "72"), FRAMES, DENIALS):
        yield number, frame.format(words.format(number, "9", "14")), False
    for number, sentence in itertools.product(("5", "72", "-3"), BARE):
        yield number, sentence.format(number, "9", "14"), False


def plain_sentences() -> Iterator[Pair]:
    """Sentences that state one number, or the result of the last equation."""
    for number, other, sentence in itertools.product(("5", "72", "1,250"), ("8", "19"), PLAIN):
        yield number, sentence.format(number), True
        yield other, sentence.format(number), False
    for number, text in itertools.product(("5", "72"), EQUATIONS):
        yield number, text.format(number), True
        yield "900", text.format(number), False
        yield "20", text.format(number), False
        yield "3", text.format(number), False


def several_numbers_after_hashes() -> Iterator[Pair]:
    """Several numbers without a preceding equation: ambiguous, so none is accepted."""
    for number, other in (("5", "9"), ("72", "30"), ("448", "20")):
        for sentence in (
            "#### It takes {0} days to write {1} books.",
            "1 + 1 = 2\n#### Of {1} people {0} came.",
            "#### Ann earned {0} for {1} minutes.",
            "#### {1} plus a few, {0} in all",
        ):
            yield number, sentence.format(number, other), False
            yield other, sentence.format(number, other), False


def several_sentences() -> Iterator[Pair]:
    """Several sentences on one line: the last number counts, unless it is retracted."""
    firsts = (
        "We get {1}.",
        "She has {1} left at noon.",
        "That makes {1} in all so far!",
        "It is not {1}.",
    )
    lasts = ("They have {0} apples left.", "So there are {0} apples.", "In the end she has {0}.")
    for number, other, first, last in itertools.product(
        ("5", "72", "1,250"), ("8", "19"), firsts, lasts
    ):
        line = f"{first} {last}".format(number, other)
        yield number, line, True
        yield other, line, False
        yield number, f"{line} No, that is wrong.", False
        yield number, f"{line} Or is it {other}?", False
    for number, first in itertools.product(("5", "72"), firsts):
        yield number, f"{first} It is not {{0}}.".format(number, "8"), False
        yield number, f"{first} It may be {{0}}.".format(number, "8"), False


CLASSES = (
    misread_sentences,
    plain_sentences,
    several_sentences,
    several_numbers_after_hashes,
)
