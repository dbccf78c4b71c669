"""A scripted model and server that answer conversations by their content and seed alone."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse

from benchmarks.lib.scripted import ScriptedModel
from pipeline_lib.engines.chat_model import Conversation, Decoding, Message, Role
from pipeline_lib.params.pacore import PacoreParams
from pipeline_lib.systems.pacore.rounds import Setting, make_plan
from pipeline_lib.systems.pacore.solution import PromptForm, Question
from tests.unit.engines.scripted_server import Body, Reply

TURNS = [
    Message(role=Role.SYSTEM, content="Be brief."),
    Message.user("Are you there?"),
    Message.assistant("Yes."),
    Message.user("What is 6 times 7?"),
]
DECODING = Decoding(temperature=1.0, max_new_tokens=50)


@dataclass(frozen=True)
class PlainTurns:
    """A chat format that keeps every turn readable."""

    digest: str = "plain"
    is_compact: bool = False

    def render(self, conversation: Conversation) -> str:
        return json.dumps([[turn.role, turn.content] for turn in conversation])


def question(name: str = "q") -> Question:
    return Question(id=name, conversation=TURNS)


def last_turn(prompt: str) -> str:
    """The last user message of a prompt of `PlainTurns`."""
    return json.loads(prompt)[-1][1]


def setting(params: PacoreParams | None = None, **changes) -> Setting:
    """A setting whose messages are the texts themselves and whose answers are their first letters."""
    form = {
        "chat_format": PlainTurns(),
        "fits": lambda _prompt: True,
        "message_of": lambda text: text,
    }
    form |= {name: changes.pop(name) for name in form if name in changes}
    fields = {
        "plan": make_plan(params or PacoreParams()),
        "form": PromptForm(**form),
        "decoding": DECODING,
        "last_decoding": DECODING,
        "seed": 7,
        "early_stop": params.early_stop if params else None,
        "open_answers": lambda: lambda text: ord(text[0]),
    }
    return Setting(**(fields | changes))


def text_of(content: str, seed: int) -> str:
    """A text that depends on prompt and seed alone."""
    return hashlib.sha256(f"{content}{seed}".encode()).hexdigest()[:12]


def scripted(answer: Callable[[str, int], str | None] = text_of) -> ScriptedModel:
    return ScriptedModel(answer=answer, chat_format=PlainTurns())


def chat_response(body: Body, text: str, reasoning: str | None = None) -> Body:
    message = {"role": "assistant", "content": text, "reasoning_content": reasoning}
    return {
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": min(4, body["max_tokens"])},
    }


def stream_response(body: Body, texts: Iterable[str], *, end: Sequence[Body] = ()) -> Response:
    """Server-sent events with one chunk a text, then the end of a completion, or the chunks of ``end``."""

    def chunk(**choice) -> Body:
        return {"model": body["model"], "choices": [{"index": 0, "delta": {}, **choice}]}

    usage = chat_response(body, "")["usage"]
    last = end or (chunk(finish_reason="stop"), {"choices": [], "usage": usage})

    async def events():
        yield ": a comment\n\n"
        for text in texts:
            yield f"data: {json.dumps(chunk(delta={'content': text}))}\n\n"
        for one in last:
            yield f"data: {json.dumps({'model': body['model']} | one)}\n\n"
        yield "data: [DONE]\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


def by_seed(delay_s: Callable[[Body], float] = lambda _body: 0.0) -> Reply:
    """Answers by messages and seed, after a delay; a stream in pieces of three characters."""

    async def reply(_request: HttpRequest, body: Body) -> Response:
        await asyncio.sleep(delay_s(body))
        text = text_of(json.dumps(body["messages"]), body.get("seed", 0))
        if body.get("stream"):
            return stream_response(body, (text[at : at + 3] for at in range(0, len(text), 3)))
        return JSONResponse(chat_response(body, text, reasoning=f"about {text}"))

    return reply
