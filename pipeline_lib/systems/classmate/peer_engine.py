"""The engine of a peer, in a process of its own: it renders questions by the peer's template and draws.

Never in a trainer's process: the embedded engine sets torch's thread count. Processes and Ray actors, which
hold it, are in `processes` and `flows.ray.peers`.
"""

import math
import pathlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pipeline_lib.engines.chat_model import ChatModel, Completion, Decoding, Request
from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.known.table import check_engine, engine_named
from pipeline_lib.engines.pretrained import load_chat_format, load_tokenizer
from pipeline_lib.engines.running_engine import check_model
from pipeline_lib.engines.started_engine import started_engine
from pipeline_lib.engines.tokens import encode_completion
from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import render
from pipeline_lib.store.files import digest_json
from pipeline_lib.systems.classmate.peer import NO_ROOM, Question

BATCH_SIZE = 64
"""Continuations decoded together by the embedded engine."""
_SHOWN = 10
"""Characters that a message names."""


@dataclass(frozen=True, slots=True)
class PeerEngine:
    """A peer within its process; implements Peer, without a deadline."""

    engine: ChatModel
    name: str = ""
    identity: str = ""

    def answer(
        self, questions: Sequence[Question], decoding: Decoding, *, timeout_s: float = math.inf
    ) -> list[list[Completion]]:
        """As `Peer`, without tokens, which are most of what would be sent.

        A prompt that leaves less than ``decoding.max_new_tokens`` of the context is a failed
        continuation: engines differ in what they draw there. Errors as of the engine.
        """
        del timeout_s  # a call in this process cannot be interrupted
        prompts = [render(one.problem, self.engine.chat_format) + one.prefix for one in questions]
        problems = [self._room_problem(prompt, decoding.max_new_tokens) for prompt in prompts]
        requests = [
            Request(prompt=prompt, seeds=one.seeds)
            for prompt, one, problem in zip(prompts, questions, problems, strict=True)
            if problem is None
        ]
        drawn = iter(self.engine.complete(requests, decoding) if requests else [])
        return [
            [Completion.failed(problem)] * len(one.seeds)
            if problem is not None
            else [
                replace(drawn_one, token_ids=None, token_logprobs=None) for drawn_one in next(drawn)
            ]
            for one, problem in zip(questions, problems, strict=True)
        ]

    def _room_problem(self, prompt: str, wanted: int) -> str | None:
        room = self.engine.room(prompt)
        if room is None or room >= wanted:
            return None
        return f"{NO_ROOM}the prefix leaves {max(room, 0)} tokens, of max_new_tokens={wanted}"


@contextmanager
def opened_peer(peer: PeerParams, *, log_folder: pathlib.Path) -> Iterator[PeerEngine]:
    """A peer in this process, for the block.

    Raises:
        BadInputError: no such model, or the server does not serve it.
        ReasonloopError: the engine does not start.
    """
    opening = started_engine(peer.model, peer.serve, log_folder=log_folder, batch_size=BATCH_SIZE)
    kind = engine_named(peer.serve.engine)
    with opening as engine:
        if not (kind.in_process or kind.is_external):
            # The first request of a server has taken 17 s on a CPU, which are no part of a call's deadline.
            engine.complete([Request(prompt="1", seeds=(0,))], Decoding(max_new_tokens=1))
        yield PeerEngine(engine)


def check_peer(peer: PeerParams) -> PeerParams:
    """The params with absolute paths, checked before anything starts.

    Raises:
        BadInputError: an unknown engine or folder, a budget, or a server that would have to render the prompts.
    """
    serve = peer.serve
    if serve.budget_tokens is not None or serve.budget_money is not None:
        raise BadInputError(
            f"classmate {peer.name}: serve.budget_tokens and serve.budget_money do not limit a peer; leave them out, "
            "and lower classmate.train.steps, num_return_sequences or max_new_tokens"
        )
    with errors_at(f"classmate {peer.name}"):
        check_engine(serve)
        is_external = engine_named(serve.engine).is_external
        source = serve.tokenizer if is_external else peer.model
        if source is not None:
            check_model(source)
    if source is None:
        raise BadInputError(
            f"classmate {peer.name}: a server does not continue an opened assistant turn; set serve.tokenizer to the "
            "Hugging Face folder or id of the model, to render prompts here"
        )
    if not is_external:
        return peer.model_copy(update={"model": _absolute(source)})
    served = serve.model_copy(update={"tokenizer": _absolute(source)})
    return peer.model_copy(update={"serve": served})


def check_readable(peers: Sequence[PeerParams], problems: Sequence[Problem]) -> None:
    """Refuse a peer whose tokenizer lacks characters of the prompts: it would be scored as wrong on all problems."""
    for peer in peers:
        source = peer.serve.tokenizer or peer.model
        tokenizer = load_tokenizer(source)
        unknown = tokenizer.unk_token_id
        if unknown is None:
            continue
        chat_format = load_chat_format(source)
        characters = {sign for problem in problems for sign in render(problem, chat_format)}
        lacking = [
            sign for sign in sorted(characters) if unknown in encode_completion(tokenizer, sign)
        ]
        if lacking:
            more = f" and {len(lacking) - _SHOWN} others" if len(lacking) > _SHOWN else ""
            raise BadInputError(
                f"classmate {peer.name}: its tokenizer lacks {' '.join(map(repr, lacking[:_SHOWN]))}{more} of the "
                "problems' prompts; give a model that can read them"
            )


def check_placed(
    peers: Sequence[PeerParams], gpus: float, cpus: float, *, place: str, policy_gpus: float = 0
) -> None:
    """Refuse peers and a policy that take more than ``place``, a machine or Ray, has."""
    wants_gpus = policy_gpus + sum(peer.num_gpus for peer in peers)
    if wants_gpus > gpus or sum(peer.num_cpus for peer in peers) > cpus:
        raise BadInputError(
            f"{place} cannot place {placed_text(peers, policy_gpus)}; it has {gpus:g} GPUs and "
            f"{cpus:g} CPUs; lower num_gpus or num_cpus of a classmate"
        )


def placed_text(peers: Sequence[PeerParams], policy_gpus: float) -> str:
    """What policy and peers take, in words."""
    gpus, cpus = sum(peer.num_gpus for peer in peers), sum(peer.num_cpus for peer in peers)
    policy = f"{policy_gpus:g} GPUs of the policy and " if policy_gpus else ""
    return f"{policy}{gpus:g} GPUs and {cpus:g} CPUs of {len(peers)} classmates"


def replicas_of(peer: PeerParams) -> list[PeerParams]:
    """A peer of one process or actor for each of the ``replicas``; with several, their names are numbered from 1."""
    if peer.replicas == 1:
        return [peer]
    names = [f"{peer.name}.{number}" for number in range(1, peer.replicas + 1)]
    return [peer.model_copy(update={"name": name, "replicas": 1}) for name in names]


def _absolute(source: str) -> str:
    """A folder's absolute path; a hub id as it is."""
    folder = pathlib.Path(source)
    return str(folder.resolve()) if folder.is_dir() else source


def peer_identity(peer: PeerParams) -> str:
    """Digest of what the peer's text depends on: model, engine, options and tokenizer; not its address."""
    serve = peer.serve
    is_external = engine_named(serve.engine).is_external
    model = peer.model if is_external else model_identity(peer.model)
    tokenizer = model_identity(serve.tokenizer) if is_external and serve.tokenizer else None
    return digest_json([model, serve.engine, list(serve.options), tokenizer, BATCH_SIZE])[:16]


def is_exact(peer: PeerParams) -> bool:
    """True if one call in one order gives the same text again: an engine in the peer's own process."""
    return engine_named(peer.serve.engine).in_process
