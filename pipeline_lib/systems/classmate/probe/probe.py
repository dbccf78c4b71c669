"""A file of chains continued by peers from every number of kept steps; a killed command continues."""

import itertools
import pathlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.known.table import engine_named
from pipeline_lib.engines.pretrained import load_chat_format
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Row
from pipeline_lib.seeding import consecutive_seeds
from pipeline_lib.store.files import check_output, digest_json, write_json_lines
from pipeline_lib.store.journal import open_journal
from pipeline_lib.store.keys import code_digest
from pipeline_lib.study.statistics.intervals import wilson_interval
from pipeline_lib.systems.classmate.body import (
    check_peer,
    check_readable,
    opened_body,
    peer_identity,
)
from pipeline_lib.systems.classmate.cut import Chain, first_leaks
from pipeline_lib.systems.classmate.peer import (
    BODY,
    NO_ROOM,
    Peer,
    Question,
    judge_answers,
    most_common_reasons,
)
from pipeline_lib.systems.classmate.probe.chains import check_questions, donors
from pipeline_lib.verify.dispatch import Verifier, open_verifier

_TOGETHER = 256
"""Continuations that a peer draws together, and again if they are not all finished: the batches of an engine
in process, and with them the rounding, are those of an unbroken probe."""
_TIMEOUT_S = 24 * 3600.0
"""Of one call. A call in this process cannot be interrupted, and requests to a server have a limit of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSetting:
    """How chains are probed."""

    samples: int
    """Continuations of a prefix."""
    decoding: Decoding
    seed: int
    shuffled: bool
    """Prefixes of other chains are continued as well."""
    verify: VerifyParams
    evaluate: EvaluateParams
    """For the confidence level of the intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """Chains with their output lines."""

    chains: Sequence[Chain]
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    """A sentence for each peer with continuations without a score."""


def check_peers(peers: Sequence[PeerParams], chains: Sequence[Chain]) -> list[PeerParams]:
    """The peers with absolute paths; each can continue prefixes, and its prompts can be rendered and read.

    Raises:
        BadInputError: as `check_peer`, `check_questions` or `check_readable`.
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
    """The peers that `check_peers` gave, with engines in this process, where nothing is trained, for the block."""
    with ExitStack() as stack:
        bodies = [
            stack.enter_context(opened_body(peer, log_folder=log_folder / peer.name))
            for peer in peers
        ]
        yield [
            replace(body, name=peer.name, identity=peer_identity(peer))
            for body, peer in zip(bodies, peers, strict=True)
        ]


def probe_chains(
    chains: Sequence[Chain],
    output: pathlib.Path,
    setting: ProbeSetting,
    *,
    opening: AbstractContextManager[Sequence[Peer]],
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Probed:
    """Continue each chain from 0 to all of its steps, and write one line each to ``output``, in order.

    ``opening`` opens the peers, once everything else is checked; ``on_progress`` is called with finished and all pairs
    of a chain and a peer.

    Raises:
        BadInputError: unusable chains, output or peers, or an unfinished output of other work.
        PeerFailedError: a peer gives no answer; finished chains are kept.
        ReasonloopError: a peer can draw nothing, or its server does not answer; as before.
    """
    check_output(output)
    by_donor = donors(chains, seed=setting.seed) if setting.shuffled else {}
    questions = [[*_questions(chain, by_donor.get(chain.id), setting)] for chain in chains]
    found: dict[str, list[list[list[Row]]]] = {}
    with opening as peers, open_verifier(setting.verify) as verifier:
        key = _key(chains, peers, setting)
        journal = open_journal(output.with_name(f"{output.name}.partial"), key=key)
        done, total = 0, len(peers) * len(chains)
        on_progress(done, total)
        for peer in peers:
            found[peer.name] = []
            for place, group in enumerate(_groups(questions, setting.samples)):
                name = f"{peer.name} {place}"
                if name not in journal.pieces:
                    journal.add(name, {"chains": _draw(peer, group, setting.decoding, verifier)})
                found[peer.name] += journal.pieces[name]["chains"]
                done += len(group)
                on_progress(done, total)
        leaks = first_leaks(chains, verifier)
    rows = [
        _row(chain, {name: own[place] for name, own in found.items()}, leak, setting.evaluate)
        for place, (chain, leak) in enumerate(zip(chains, leaks, strict=True))
    ]
    write_json_lines(output, rows)
    journal.remove()
    return Probed(chains=chains, rows=rows, notes=[*_notes(found)])


def _questions(chain: Chain, donor: Chain | None, setting: ProbeSetting) -> Iterator[Question]:
    """One for each number of kept steps; then from 1 on with as large a share of the donor's steps, rounded down."""

    def question(kept: int, prefix: Sequence[str], of: str) -> Question:
        # No peer's name: all peers continue a prefix with the same seeds.
        seeds = consecutive_seeds(setting.samples, setting.seed, "probe", of, chain.id, kept)
        return Question(problem=chain.problem, prefix="".join(prefix), seeds=tuple(seeds))

    steps = len(chain.steps)
    for kept in range(steps + 1):
        yield question(kept, chain.steps[:kept], "own")
    if donor is None:
        return
    for kept in range(1, steps + 1):
        yield question(kept, donor.steps[: kept * len(donor.steps) // steps], "shuffled")


def _groups(
    questions: Sequence[list[Question]], samples: int
) -> Iterator[Sequence[list[Question]]]:
    """Consecutive chains whose continuations are drawn together; at least one chain."""
    first = size = 0
    for place, own in enumerate(questions):
        drawn = len(own) * samples
        if place > first and size + drawn > _TOGETHER:
            yield questions[first:place]
            first, size = place, 0
        size += drawn
    yield questions[first:]


def _draw(
    peer: Peer, group: Sequence[list[Question]], decoding: Decoding, verifier: Verifier
) -> list[list[list[Row]]]:
    """Judged continuations of each question of each chain, drawn in one call; errors as of `probe_chains`."""
    questions = [one for own in group for one in own]
    answers = peer.answer(questions, decoding, timeout_s=_TIMEOUT_S)
    judged = judge_answers({peer.name: questions}, {peer.name: answers}, verifier)[peer.name]
    every = [*itertools.chain.from_iterable(judged)]
    reasons = [one.failure or "" for one in every if one.right is None]
    mended = [reason for reason in reasons if not reason.startswith(NO_ROOM)]
    if len(reasons) == len(every) and mended:
        raise ReasonloopError(
            f"classmate {peer.name}: no continuation was drawn and judged; the first: {mended[0]}"
        )
    rows = iter(
        [{"text": one.text, "right": one.right, "error": one.failure} for one in found]
        for found in judged
    )
    return [[next(rows) for _ in own] for own in group]


def _row(
    chain: Chain, found: dict[str, list[list[Row]]], leak: int | None, evaluate: EvaluateParams
) -> Row:
    """The output line: lists by the number of kept steps, from 0."""
    lengths = len(chain.steps) + 1
    own = {name: judged[:lengths] for name, judged in found.items()}
    others = {name: judged[lengths:] for name, judged in found.items()}
    return {
        "id": chain.id,
        "peers": {
            name: _figures(judged, evaluate)
            # The empty prefix is the chain's own.
            | ({"shuffled": _figures([judged[0], *after], evaluate)} if after else {})
            for (name, judged), after in zip(own.items(), others.values(), strict=True)
        },
        "leak": [leak is not None and kept > leak for kept in range(lengths)],
        "continuations": own,
    }


def _figures(judged: Sequence[Sequence[Row]], evaluate: EvaluateParams) -> Row:
    """Success with Wilson's interval over the continuations of a prefix; ``lift`` is the change by the last kept step."""
    scores = [[one["right"] for one in found if one["right"] is not None] for found in judged]
    success = [wilson_interval(sum(own), len(own), evaluate) if own else None for own in scores]
    values = [one.value if one else None for one in success]
    return {
        "kept": list(range(len(values))),
        "success": values,
        "low": [one.low if one else None for one in success],
        "high": [one.high if one else None for one in success],
        "lift": [
            None,
            *(
                None if before is None or after is None else after - before
                for before, after in itertools.pairwise(values)
            ),
        ],
        "failed": [len(found) - len(own) for found, own in zip(judged, scores, strict=True)],
    }


def _notes(found: dict[str, list[list[list[Row]]]]) -> Iterator[str]:
    for name, chains in found.items():
        every = itertools.chain.from_iterable(itertools.chain.from_iterable(chains))
        reasons = Counter(one["error"] or "not judged" for one in every if one["right"] is None)
        if reasons:
            yield f"classmate {name}: {reasons.total()} continuations have no score: {most_common_reasons(reasons)}"


def _key(chains: Sequence[Chain], peers: Sequence[Peer], setting: ProbeSetting) -> str:
    """Digest of everything that the continuations depend on."""
    return digest_json(
        {
            # The journal holds verdicts, too.
            "code": [code_digest(module) for module in (__name__, BODY)],
            "chains": [[chain.id, chain.problem.row(), list(chain.steps)] for chain in chains],
            "peers": [[peer.name, peer.identity] for peer in peers],
            "decoding": asdict(setting.decoding),
            "samples": setting.samples,
            "seed": setting.seed,
            "shuffled": setting.shuffled,
            "verify": setting.verify.model_dump(mode="json"),
        }
    )
