"""A file of chains continued by peers from every number of kept steps; a killed command continues."""

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass

from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.store.files import check_output, digest_json, write_json_lines
from pipeline_lib.store.journal import Journal, open_journal
from pipeline_lib.store.keys import code_digest
from pipeline_lib.systems.classmate import leaks
from pipeline_lib.systems.classmate.peer import BODY, Peer
from pipeline_lib.systems.classmate.probe.chains import Chain, donors
from pipeline_lib.systems.classmate.probe.continuations import (
    ChainContinuations,
    Drawing,
    draw_group,
)
from pipeline_lib.systems.classmate.probe.figures import ByKept, ProbedChain
from pipeline_lib.verify.dispatch import Verifier, open_verifier

_TOGETHER = 256
"""Continuations that a peer draws together, and again if they are not all finished: the batches of an engine
in process, and with them the rounding, are those of an unbroken probe."""

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSetting:
    """How chains are probed."""

    drawing: Drawing
    shuffled: bool
    """Prefixes of other chains are continued as well."""
    verify: VerifyParams
    level: float
    """Confidence of the intervals."""


def probe_chains(
    chains: Sequence[Chain],
    output: pathlib.Path,
    setting: ProbeSetting,
    *,
    opening: AbstractContextManager[Sequence[Peer]],
    on_progress: OnProgress = lambda _done, _total: None,
) -> list[ProbedChain]:
    """Continue each chain from 0 to all of its steps, and write one line each to ``output``, in order.

    Args:
        chains: with distinct ids.
        output: JSON-lines file to write.
        setting: draws, control and verifier.
        opening: opens the peers, once everything else is checked.
        on_progress: called with finished and all pairs of a chain and a peer.

    Raises:
        BadInputError: unusable chains, output or peers, or an unfinished output of other work.
        PeerFailedError: a peer gives no answer; finished chains are kept.
        ReasonloopError: a peer can draw nothing, or its server does not answer; as before.
    """
    check_output(output)
    found_donors = donors(chains, seed=setting.drawing.seed) if setting.shuffled else {}
    with opening as peers, open_verifier(setting.verify) as verifier:
        journal = open_journal(
            output.with_name(f"{output.name}.partial"), key=_key(chains, peers, setting)
        )
        work = _Work(
            chains=chains, donors=found_donors, journal=journal, setting=setting, verifier=verifier
        )
        found = work.draw(peers, on_progress)
        leaked = leaks.first_leaks(
            [leaks.Chain(problem=chain.problem, steps=chain.steps) for chain in chains], verifier
        )
    probed = [
        _probed(chain, {name: own[place] for name, own in found.items()}, first, setting)
        for place, (chain, first) in enumerate(zip(chains, leaked, strict=True))
    ]
    write_json_lines(output, (one.row() for one in probed))
    journal.remove()
    return probed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """The draws of one command."""

    chains: Sequence[Chain]
    donors: Mapping[str, Chain]
    journal: Journal
    setting: ProbeSetting
    verifier: Verifier

    def draw(
        self, peers: Sequence[Peer], on_progress: OnProgress
    ) -> dict[str, list[ChainContinuations]]:
        """The continuations of all chains, by the peer's name; finished groups are not asked again."""
        groups = list(self._groups())
        total = len(peers) * len(self.chains)

        def report() -> None:
            on_progress(sum(len(piece["chains"]) for piece in self.journal.pieces.values()), total)

        report()
        found: dict[str, list[ChainContinuations]] = {}
        for peer in peers:
            names = [f"{peer.name} {place}" for place in range(len(groups))]
            for name, group in zip(names, groups, strict=True):
                if name not in self.journal.pieces:
                    self.journal.add(name, {"chains": self._draw_group(peer, group)})
                    report()
            found[peer.name] = [
                ChainContinuations.from_piece(piece)
                for name in names
                for piece in self.journal.pieces[name]["chains"]
            ]
        return found

    def _draw_group(self, peer: Peer, group: Sequence[Chain]) -> list[dict[str, object]]:
        drawn = draw_group(peer, group, self.donors, self.setting.drawing, self.verifier)
        return [one.piece() for one in drawn]

    def _groups(self) -> Iterator[list[Chain]]:
        """Consecutive chains whose continuations are drawn together; at least one chain."""
        group: list[Chain] = []
        size = 0
        for chain in self.chains:
            prefixes = 1 + len(chain.steps) * (2 if self.donors else 1)
            drawn = prefixes * self.setting.drawing.samples
            if group and size + drawn > _TOGETHER:
                yield group
                group, size = [], 0
            group.append(chain)
            size += drawn
        yield group


def _probed(
    chain: Chain,
    found: Mapping[str, ChainContinuations],
    first_leak: int | None,
    setting: ProbeSetting,
) -> ProbedChain:
    kept = range(len(chain.steps) + 1)
    return ProbedChain(
        chain=chain,
        leak=[first_leak is not None and number > first_leak for number in kept],
        continuations=found,
        own={name: ByKept.of(one.own, level=setting.level) for name, one in found.items()},
        shuffled={
            name: ByKept.of(one.shuffled, level=setting.level)
            for name, one in found.items()
            if one.shuffled
        },
    )


def _key(chains: Sequence[Chain], peers: Sequence[Peer], setting: ProbeSetting) -> str:
    """Digest of everything that the continuations depend on."""
    drawing = setting.drawing
    return digest_json(
        {
            # The journal holds verdicts, too.
            "code": [code_digest(module) for module in (__name__, BODY)],
            "chains": [[chain.id, chain.problem.row(), list(chain.steps)] for chain in chains],
            "peers": [[peer.name, peer.identity] for peer in peers],
            "decoding": asdict(drawing.decoding),
            "samples": drawing.samples,
            "seed": drawing.seed,
            "shuffled": setting.shuffled,
            "verify": setting.verify.model_dump(mode="json"),
        }
    )
