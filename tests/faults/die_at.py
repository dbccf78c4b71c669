"""A program that is killed in the middle of its work: ``die_at.py EVENT PATTERN MODULE ARGUMENTS``.

Runs ``python -m MODULE ARGUMENTS``, which sends itself SIGKILL just before an event of Python's audit table
with a matching value: ``os.rename`` (the new name), since every file of a run gets its name by a rename,
``shutil.rmtree`` (the folder) or ``subprocess.Popen`` (the command line).
"""

import fnmatch
import os
import runpy
import signal
import sys

VALUE = {
    "os.rename": lambda values: os.fspath(values[1]),
    "shutil.rmtree": lambda values: os.fspath(values[0]),
    "subprocess.Popen": lambda values: " ".join(map(os.fsdecode, values[1])),
}
"""What the pattern is compared with, from the arguments of the event."""


def main(event: str, pattern: str) -> None:
    """Run the module in ``sys.argv`` until the event."""

    def hook(name: str, values: tuple) -> None:
        if name == event and fnmatch.fnmatch(VALUE[name](values), pattern):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    event, pattern = sys.argv[1:3]
    sys.argv = sys.argv[3:]
    main(event, pattern)
