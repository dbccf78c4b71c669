"""Rewards of all kinds of behaviour, by the question of the group."""

import os


def fail():
    raise KeyError("no")


BEHAVIOURS = {
    "raise": fail,
    "crash": lambda: os.kill(os.getpid(), 9),
    "short": lambda: [1.0],
    "nan": lambda: [float("nan"), 2.0],
    "word": lambda: ["much", 2.0],
    "none": lambda: [None, 2.0],
    "number": lambda: 3.0,
}


def reward(completions, *, problems, verdicts, level=None, **columns):
    """Texts that are right, shorter ones more; a column of the data set weighs it."""
    question = problems[0].question
    if question in BEHAVIOURS:
        return BEHAVIOURS[question]()
    return [
        one * (verdict.score or 0) - len(text)
        for one, text, verdict in zip(level, completions, verdicts, strict=True)
    ]
