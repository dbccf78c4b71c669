"""Paths of the model of a running server: how its prompts are sent, and whether it is still the same model."""

import pathlib
from dataclasses import replace

from pipeline_lib.engines.chat_model import Decoding, Message, Request
from pipeline_lib.engines.running_engine import attach
from pipeline_lib.engines.started_engine import connect
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.store.files import read_json, write_json
from pipeline_lib.systems.loop.draw import Draw, Route
from pipeline_lib.systems.stage import Run

PROBE = "What is 6 times 7?"
_PROBE = Decoding(temperature=0.0, max_new_tokens=16)


def with_route(draw: Draw) -> Draw:
    """The draw with the form of its prompts: token ids if the tokenizers of server and policy are equal.

    Otherwise messages, or a text if the server's tokenizer has no chat template.

    Raises:
        BadInputError: a tokenizer cannot be read.
    """
    from pipeline_lib.engines.pretrained import load_tokenizer, vocabulary_digest  # noqa: PLC0415

    source = draw.sample.server.tokenizer
    if source is None:
        return draw
    theirs, ours = load_tokenizer(source), load_tokenizer(str(draw.run.start))
    if vocabulary_digest(theirs) == vocabulary_digest(ours):
        return replace(draw, route=Route.IDS)
    return replace(draw, route=Route.MESSAGES if theirs.chat_template else Route.TEXT)


def check_same_model(draw: Draw, *, key: str) -> None:
    """Compare the answer to a fixed question with the one before the first path under ``key``, or record it.

    Raises:
        BadInputError: the server answers otherwise, so it may have another model.
        ReasonloopError: it does not answer.
    """
    serve, server = draw.serve, draw.sample.server
    model = connect(
        attach(serve, by_chat=serve.tokenizer is None, key="sample.server").endpoint,
        serve,
        model=draw.model,
    )
    chat = model.chat_format
    prompt = chat.render([Message.user(PROBE)]) if chat is not None else f"{PROBE}\n\n"
    [[answer]] = model.complete([Request(prompt=prompt, seeds=[0])], _PROBE)
    if answer.error:
        raise ReasonloopError(f"sample.server.url: {server.url}: {answer.error}")
    record = _record(draw.run, key)
    if not record.exists():
        write_json(
            record, {"model": server.model, "revision": server.revision, "answer": answer.text}
        )
        return
    before = read_json(record)["answer"]
    if before != answer.text:
        raise BadInputError(
            f"sample.server: {server.model} at {server.url} answers {PROBE!r} otherwise than when its paths were "
            f"begun, so it may be another model; serve that one again, set sample.server.revision to draw all "
            f"paths anew, or remove {record} to go on"
        )


def _record(run: Run, key: str) -> pathlib.Path:
    return run.root / "telemetry" / f"server-{key[:16]}.json"
