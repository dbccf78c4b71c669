"""Peers whose engines are open in this process, where nothing is trained."""

import pathlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.engines.known.table import engine_named
from pipeline_lib.engines.pretrained import load_chat_format
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.systems.classmate.body import PeerBody, check_peer, opened_body, peer_identity
from pipeline_lib.systems.classmate.peer import Peer, Question
from pipeline_lib.systems.classmate.probe.chains import Chain, check_questions
from pipeline_lib.systems.classmate.readable import check_readable


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcessPeer:
    """Implements Peer on an engine that is open in this process."""

    name: str
    identity: str
    body: PeerBody

    def answer(
        self, questions: Sequence[Question], decoding: Decoding, *, timeout_s: float
    ) -> list[list[Completion]]:
        """As `PeerBody.answer`.

        A call in this process cannot be interrupted, and requests to a server have a time limit of their own,
        so ``timeout_s`` is not used.
        """
        del timeout_s
        return self.body.answer(questions, decoding)


def check_peers(peers: Sequence[PeerParams], chains: Sequence[Chain]) -> list[PeerParams]:
    """The peers with absolute paths; each can continue prefixes, and its prompts can be rendered and read.

    Raises:
        BadInputError: no such model or tokenizer, a server without a tokenizer, a chain without a question, or
            one with characters that a tokenizer lacks.
    """
    checked = [check_peer(peer) for peer in peers]
    for peer in checked:
        is_external = engine_named(peer.serve.engine).is_external
        source = peer.serve.tokenizer if is_external else peer.model
        assert source is not None  # by `check_peer`
        check_questions(chains, load_chat_format(source), peer=peer.name)
    check_readable(checked, [chain.problem for chain in chains])
    return checked


@contextmanager
def opened_peers(peers: Sequence[PeerParams], *, log_folder: pathlib.Path) -> Iterator[list[Peer]]:
    """The peers that `check_peers` gave, for the duration of the block.

    Raises:
        BadInputError: a model cannot be read, or a server does not serve it.
        ReasonloopError: an engine does not start.
    """
    with ExitStack() as stack:
        yield [
            InProcessPeer(
                name=peer.name,
                identity=peer_identity(peer),
                body=stack.enter_context(opened_body(peer, log_folder=log_folder / peer.name)),
            )
            for peer in peers
        ]
