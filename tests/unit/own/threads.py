"""A task whose questions have parts, and the grammar of their threads."""

import itertools

from pipeline_lib.systems.apr.words.grammars import PointerGrammar

THREADS = PointerGrammar(whole_question=True)
PROMPT = "Name parts in tags.\n{question}"


def problems(split, seed):
    for number in itertools.count(seed):
        yield {"question": f"{split}\n(1) {number}\n(2) {number + 1}", "answer": 2 * number + 1}


def verify(answer, text):
    return str(answer) in text


def answer(text):
    return text[:1]
