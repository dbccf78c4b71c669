"""A model as a verifier: it is asked whether an answer is right, at a server of `reasonloop serve models/smollm2`.

reasonloop run --task mine.py --set verify.verifier=examples/judge.py:verify
reasonloop verify answers.jsonl --output verdicts.jsonl --verifier examples/judge.py:verify

A text may talk a judge over: compare its verdicts with labels before it gives rewards. Address and model are constants,
so that another judge is other code, and what was judged is judged anew.
"""

import functools
from typing import Any

from openai import OpenAI

URL = "http://127.0.0.1:8300/v1"
MODEL = "models/smollm2"
ASKED = """\
The right answer is: {answer}

Does the text between the lines give this answer? Reply with one word, yes or no.
----
{text}
----"""


@functools.cache
def server() -> OpenAI:
    """One connection for all calls of a process."""
    return OpenAI(base_url=URL, api_key="none", max_retries=2)


def verify(answer: Any, text: str) -> tuple[bool | str, dict[str, Any]]:
    """The verdict, and what it cost: OpenAI's usage, whose tokens the report adds up.

    A server that is gone raises an error, and a reply that is neither yes nor no is no verdict: both are null.
    """
    reply = server().chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": ASKED.format(answer=answer, text=text)}],
        temperature=0,
        max_tokens=8,
    )
    said = reply.choices[0].message.content or ""
    word = said.strip().lower().rstrip(".!,")
    known: dict[str, bool | str] = {"yes": True, "no": False}
    usage = reply.usage.model_dump() if reply.usage else {}
    return known.get(word, f"unreadable reply {said!r}"), usage
