"""Peers whose engines are opened in this process, all before the first call."""

import pathlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pipeline_lib.classmate.peer import Peer, Question
from pipeline_lib.classmate.probe.chains import Chain, check_questions
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.records import FinishReason
from pipeline_lib.sampling.prompts import render
from pipeline_lib.serving.chat_model import ChatModel, Completion, Decoding, Request
from pipeline_lib.serving.engines.table import check_engine, engine_named
from pipeline_lib.serving.pretrained import load_chat_format
from pipeline_lib.serving.started_engine import started_engine
from pipeline_lib.storage.files import digest_json


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePeer:
    """Implements Peer on an engine that is open in this process."""

    name: str
    engine: ChatModel

    @property
    def identity(self) -> str:
        """Digest of the model, the engine and the template."""
        chat_format = self.engine.chat_format
        template = chat_format.digest if chat_format else None
        return digest_json([self.engine.identity, self.engine.engine, template])

    def answer(
        self, questions: Sequence[Question], decoding: Decoding, *, timeout_s: float
    ) -> list[list[Completion]]:
        """Continuations; a prefix that leaves too little of the window fails.

        A call in this process cannot be interrupted, and requests to a server have a time limit of their own,
        so ``timeout_s`` is not used.
        """
        del timeout_s
        requests = [
            Request(
                prompt=render(one.problem, self.engine.chat_format) + one.prefix, seeds=one.seeds
            )
            for one in questions
        ]
        rooms = [self.engine.room(request.prompt) for request in requests]
        fitting = [
            request
            for request, room in zip(requests, rooms, strict=True)
            if room is None or room >= decoding.max_new_tokens
        ]
        drawn = iter(self.engine.complete(fitting, decoding))
        return [
            next(drawn)
            if room is None or room >= decoding.max_new_tokens
            else [_too_long(room, decoding)] * len(request.seeds)
            for request, room in zip(requests, rooms, strict=True)
        ]


def _too_long(room: int, decoding: Decoding) -> Completion:
    return Completion(
        text="",
        finish_reason=FinishReason.ERROR,
        prompt_tokens=0,
        completion_tokens=0,
        logprob=None,
        error=f"the prefix leaves {max(room, 0)} tokens of the window for {decoding.max_new_tokens} new ones",
    )


def check_peers(peers: Sequence[PeerParams], chains: Sequence[Chain]) -> None:
    """Check that each peer can continue prefixes, and that its prompts can be rendered.

    Raises:
        BadInputError: no such model or tokenizer, a server without a tokenizer, or a chain without a question.
    """
    for peer in peers:
        check_engine(peer.serve)
        source: str | None = peer.model
        if engine_named(peer.serve.engine).is_external:
            source = peer.serve.tokenizer
        if source is None:
            raise BadInputError(
                f"classmate {peer.name}: {peer.serve.url} cannot continue an opened turn by its chat route; give "
                "--tokenizer, the model's Hugging Face folder or id"
            )
        check_questions(chains, load_chat_format(source), peer=peer.name)


@contextmanager
def opened_peers(
    peers: Sequence[PeerParams], *, log_folder: pathlib.Path, batch_size: int
) -> Iterator[list[Peer]]:
    """The peers, for the duration of the block.

    Raises:
        BadInputError: no such model, or a server does not serve it.
        ReasonloopError: an engine does not start.
    """
    with ExitStack() as stack:
        yield [
            EnginePeer(
                name=peer.name,
                engine=stack.enter_context(
                    started_engine(
                        peer.model,
                        peer.serve,
                        log_folder=log_folder / peer.name,
                        batch_size=batch_size,
                    )
                ),
            )
            for peer in peers
        ]
