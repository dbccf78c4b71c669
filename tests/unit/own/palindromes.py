"""A task of one file."""

import random

PROMPT = "{question}\n"


def problems(split, seed):
    draw = random.Random(f"{split} {seed}")
    while True:
        half = "".join(draw.choice("abcdefgh") for _ in range(4))
        word = half + (half[::-1] if draw.random() < 0.5 else "abcd")
        answer = "yes" if word == word[::-1] else "no"
        yield {
            "question": f"{split[:2]} {word}",
            "answer": answer,
            "word": word,
            "solution": answer,
        }


def verify(answer, text):
    return text.strip() == answer


def answer(text):
    return text.strip()[:3]


def reward(completions, *, verdicts, word, **columns):
    return [
        verdict.score - len(text) / 100 for verdict, text in zip(verdicts, completions, strict=True)
    ]
