"""Untrusted text made safe for a terminal: no control characters, nothing that cannot be encoded.

Ids, file names and model output can contain escape sequences that move the cursor, rename the window
or hide earlier text. Text in files is not changed.
"""

import re

# C0 without tab and line feed, DEL, C1, and the marks that reorder what is shown.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """``text`` without control characters; lone surrogates are shown as escapes."""
    return _CONTROLS.sub("", text).encode("utf-8", "backslashreplace").decode()


def one_line(text: str, *, most: int = 2000) -> str:
    """Printable ``text`` on one line of at most ``most`` characters, white space collapsed."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 4]} ..."
