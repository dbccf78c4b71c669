"""Verifiers of all kinds of behaviour, by the text that they are given."""

import os
import pathlib
import subprocess
import time


def fail():
    raise ValueError("the answer\nis odd")


def loop():
    while True:
        pass


def leave():
    raise SystemExit(0)


def fork_and_hang():
    if not os.fork():
        time.sleep(600)


def print_much():
    for _ in range(100):
        print("x" * 1_000_000)
    return True


BEHAVIOURS = {
    "raise": fail,
    "hang": lambda: time.sleep(600),
    "loop": loop,
    "crash": lambda: os.kill(os.getpid(), 11),
    "exit": leave,
    "fork": lambda: os.fork() >= 0,
    "fork and hang": fork_and_hang,
    "memory": lambda: len(bytearray(2 << 30)) == 0,
    "print": print_much,
    "nan": lambda: float("nan"),
    "word": lambda: "right",
    "seven": lambda: 7,
    "object": object,
    "none": lambda: None,
    "half": lambda: 0.5,
    "child": lambda: subprocess.run(["true"], check=False).returncode == 0,
    "folder": lambda: pathlib.Path("hostile.py").exists(),
}


def verify(answer, text):
    return BEHAVIOURS[text]() if text in BEHAVIOURS else text == answer


async def verify_later(answer, text):
    return text == answer


def answer(text):
    return None if text == "none" else text.split()[-1].lower()
