"""Verifiers of all kinds of behaviour, by the text that they are given."""

import os
import subprocess
import time


def verify(answer, text):
    match text:
        case "raise":
            raise ValueError("the answer\nis odd")
        case "hang":
            time.sleep(600)
        case "loop":
            while True:
                pass
        case "crash":
            os.kill(os.getpid(), 11)
        case "exit":
            raise SystemExit(0)
        case "fork":
            os.fork()
        case "fork and hang":
            if not os.fork():
                time.sleep(600)
        case "memory":
            return len(bytearray(2 << 30)) == 0
        case "print":
            for _ in range(100):
                print("x" * 1_000_000)
            return True
        case "nan":
            return float("nan")
        case "word":
            return "right"
        case "seven":
            return 7
        case "object":
            return object()
        case "none":
            return None
        case "half":
            return 0.5
        case "child":
            return subprocess.run(["true"], check=False).returncode == 0
        case "folder":
            return os.path.exists("hostile.py")
    return text == answer


async def verify_later(answer, text):
    return text == answer


def answer(text):
    return None if text == "none" else text.split()[-1].lower()
