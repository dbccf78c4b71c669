"""Continuations of the prefixes of chains, drawn by one peer and judged."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.records import Row
from pipeline_lib.seeding import consecutive_seeds
from pipeline_lib.store.journal import Piece
from pipeline_lib.systems.classmate.peer import NO_ROOM, Peer, Question
from pipeline_lib.systems.classmate.probe.chains import Chain
from pipeline_lib.systems.classmate.scoring import Continuation, Continuations, judge_answers
from pipeline_lib.verify.dispatch import Verifier

_TIMEOUT_S = 24 * 3600.0
"""Of one call. A probe waits for slow peers; requests to a server have a time limit of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """How continuations are drawn."""

    samples: int
    """Continuations of a prefix."""
    decoding: Decoding
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainContinuations:
    """The continuations of one chain by one peer."""

    own: Continuations
    """By the number of kept steps, from 0."""
    shuffled: Continuations
    """After prefixes of the chain's donor, for as many kept steps; the empty prefix is the chain's own. Empty
    without a donor."""

    def piece(self) -> Row:
        """Plain JSON values."""
        return {"own": _rows(self.own), "shuffled": _rows(self.shuffled)}

    @classmethod
    def from_piece(cls, piece: Piece) -> "ChainContinuations":
        """Inverse of :meth:`piece`."""
        return cls(own=_judged(piece["own"]), shuffled=_judged(piece["shuffled"]))


def _rows(judged: Continuations) -> list[list[Row]]:
    return [
        [{"text": one.text, "right": one.right, "error": one.failure} for one in found]
        for found in judged
    ]


def _judged(rows: Sequence[Sequence[Row]]) -> Continuations:
    return [
        [Continuation(text=one["text"], right=one["right"], failure=one["error"]) for one in found]
        for found in rows
    ]


def draw_group(
    peer: Peer,
    chains: Sequence[Chain],
    donors: Mapping[str, Chain],
    drawing: Drawing,
    verifier: Verifier,
) -> list[ChainContinuations]:
    """The continuations of ``chains`` by ``peer``, in one call, judged.

    Raises:
        ReasonloopError: nothing was drawn and judged, though there was room for some; the message has the first
            reason.
        PeerFailedError: the peer gave no answer.
    """
    questions = [
        question
        for chain in chains
        for question in _questions(chain, donors.get(chain.id), drawing)
    ]
    answers = peer.answer(questions, drawing.decoding, timeout_s=_TIMEOUT_S)
    judged = judge_answers({peer.name: questions}, {peer.name: answers}, verifier)[peer.name]
    every = [one for found in judged for one in found]
    missed = [one.failure or "" for one in every if one.right is None]
    mended = [reason for reason in missed if not reason.startswith(NO_ROOM)]
    if len(missed) == len(every) and mended:
        raise ReasonloopError(
            f"classmate {peer.name}: no continuation was drawn and judged; the first: {mended[0]}"
        )
    rest = iter(judged)
    found = []
    for chain in chains:
        own = [next(rest) for _ in range(len(chain.steps) + 1)]
        after = [next(rest) for _ in chain.steps] if chain.id in donors else []
        found.append(ChainContinuations(own=own, shuffled=[own[0], *after] if after else []))
    return found


def _questions(chain: Chain, donor: Chain | None, drawing: Drawing) -> Iterator[Question]:
    steps = len(chain.steps)
    for kept in range(steps + 1):
        yield _question(chain, chain.prefix(kept), drawing, "own", kept)
    if donor is not None:
        for kept in range(1, steps + 1):
            prefix = donor.aligned_prefix(kept, steps)
            yield _question(chain, prefix, drawing, "shuffled", kept)


def _question(chain: Chain, prefix: str, drawing: Drawing, of: str, kept: int) -> Question:
    # No peer's name: all peers continue a prefix with the same seeds.
    seeds = consecutive_seeds(drawing.samples, drawing.seed, "probe", of, chain.id, kept)
    return Question(problem=chain.problem, prefix=prefix, seeds=tuple(seeds))
