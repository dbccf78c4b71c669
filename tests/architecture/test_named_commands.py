"""Messages, docstrings and documents name commands that there are."""

import re

from benchmarks.lib.repository import REPOSITORY
from flows.cli.app import COMMANDS, GROUPS

NAMED = re.compile(r"`(?:\$ )?reasonloop ([a-z][a-z-]*[a-z])(?: ([a-z][a-z-]*[a-z])(?![a-z*-]))?")


def names_of(paths):
    """The last word of each ``MODULE:FUNCTION`` or ``MODULE:FUNCTION as NAME``."""
    return {re.split("[: ]", path)[-1].rstrip("_").replace("_", "-") for path in paths}


def test_commands_in_texts_exist():
    """Each `reasonloop NAME` is a command, or a group that has the command after it."""
    commands = names_of(COMMANDS)
    groups = {name: names_of(paths) for name, (_, paths) in GROUPS.items()}
    files = [
        *(
            file
            for top in ("flows", "tasks", "pipeline_lib")
            for file in (REPOSITORY / top).rglob("*.py")
        ),
        *(REPOSITORY / "docs").rglob("*.md"),
        REPOSITORY / "README.md",
    ]
    found = [
        (file.name, *named.groups())
        for file in files
        for named in NAMED.finditer(file.read_text("utf-8"))
    ]
    assert len(found) > 50
    unknown = [
        (file, first, second)
        for file, first, second in found
        if first not in commands
        and not (first in groups and (second is None or second in groups[first]))
    ]
    assert unknown == []
