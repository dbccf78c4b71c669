"""A file of chains continued by peers from every number of kept steps; a killed command continues."""

import itertools
import pathlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace

from pipeline_lib.engines.chat_model import ChatFormat, Decoding
from pipeline_lib.engines.pretrained import load_chat_format
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Row
from pipeline_lib.seeding import child_random, consecutive_seeds
from pipeline_lib.store.files import check_output, digest_json, write_json_lines
from pipeline_lib.store.journal import open_journal
from pipeline_lib.store.keys import code_digest
from pipeline_lib.study.statistics.intervals import wilson_interval
from pipeline_lib.systems.classmate.cut import Chain, first_leaks, split_steps
from pipeline_lib.systems.classmate.peer import (
    NO_ROOM,
    PEER_ENGINE,
    Peer,
    Question,
    decoding_of,
    judge_answers,
    most_common_reasons,
)
from pipeline_lib.systems.classmate.peer_engine import (
    check_peer,
    check_readable,
    opened_peer,
    peer_identity,
)
from pipeline_lib.terminal_text import one_line
from pipeline_lib.verify.dispatch import Verifier, open_verifier
from pipeline_lib.verify.lines import Line, read_lines

_TOGETHER = 256
"""Continuations that a peer draws together, and again if they are not all finished: the batches of an engine
in process, and with them the rounding, are as in an unbroken probe."""
_TIMEOUT_S = 24 * 3600.0
"""Of one call. A call in this process cannot be interrupted, and requests to a server have a limit of their own."""
_SHOWN_CHARACTERS = 60
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """Chains with their output lines."""

    chains: Sequence[Chain]
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    """A sentence for each peer with continuations without a score."""


def read_chains(path: pathlib.Path, *, step: str) -> list[Chain]:
    """The chains of a file of JSON lines, in order; ``step`` separates their steps.

    Raises:
        BadInputError: no such file, no line, an id twice, a line that cannot be used or has no step.
    """
    chains = [_chain(line, path, step=step) for line in read_lines(path)]
    if not chains:
        raise BadInputError(f"{path}: no chains; give lines as `reasonloop verify` reads them")
    return chains


def _chain(line: Line, path: pathlib.Path, *, step: str) -> Chain:
    steps = split_steps(line.text or "", step)
    if not steps:
        raise BadInputError(f"{path}: {_shown(line.id)}: text: has no step; leave the line out")
    for name, text in (("text", line.text), ("question", line.question)):
        if text and _SURROGATE.search(text):
            raise BadInputError(
                f"{path}: {_shown(line.id)}: {name}: has a lone surrogate, which no tokenizer reads; remove it"
            )
    return Chain(id=line.id, problem=line.problem(), steps=steps)


def check_questions(chains: Sequence[Chain], chat_format: ChatFormat | None, *, peer: str) -> None:
    """Refuse a chain without a question if a peer's prompt of its kind is in words."""
    is_compact = chat_format is None or chat_format.is_compact
    for chain in chains:
        kind = chain.problem.kind
        in_words = kind.compact_prompt is None or not is_compact
        if in_words and not chain.problem.question.strip():
            raise BadInputError(
                f"{_shown(chain.id)}: question: is missing, and classmate {peer} is asked {kind.name} in words; "
                "add it to the line"
            )


def donors(chains: Sequence[Chain], *, seed: int) -> dict[str, Chain]:
    """For each chain, by its id, the next one of another problem in a shuffled order: its prefixes are the control.

    Raises:
        BadInputError: all chains are of one problem.
    """
    order = list(chains)
    child_random(seed, "probe", "shuffled").shuffle(order)
    found = {}
    for place, chain in enumerate(order):
        others = (*order[place + 1 :], *order[:place])
        donor = next((one for one in others if one.problem.id != chain.problem.id), None)
        if donor is None:
            raise BadInputError(
                f"--shuffled: all chains are of problem {_shown(chain.problem.id)}; give chains of two problems"
            )
        found[chain.id] = donor
    return found


def _shown(name: str) -> str:
    return one_line(repr(name), most=_SHOWN_CHARACTERS)


def check_peers(peers: Sequence[PeerParams], chains: Sequence[Chain]) -> list[PeerParams]:
    """The peers with absolute paths; each can continue prefixes, and its prompts can be rendered and read.

    Raises:
        BadInputError: as `check_peer`, `check_questions` or `check_readable`.
    """
    checked = [check_peer(peer) for peer in peers]
    for peer in checked:
        source = peer.serve.tokenizer or peer.model
        check_questions(chains, load_chat_format(source), peer=peer.name)
    check_readable(checked, [chain.problem for chain in chains])
    return checked


@contextmanager
def opened_peers(peers: Sequence[PeerParams], *, log_folder: pathlib.Path) -> Iterator[list[Peer]]:
    """The peers that `check_peers` gave, with engines in this process, where nothing is trained, for the block."""
    with ExitStack() as stack:
        openings = [(opened_peer(one, log_folder=log_folder / one.name), one) for one in peers]
        yield [
            replace(stack.enter_context(opening), name=one.name, identity=peer_identity(one))
            for opening, one in openings
        ]


def probe_chains(  # noqa: PLR0913 - what a probe is of
    chains: Sequence[Chain],
    output: pathlib.Path,
    params: Params,
    *,
    samples: int,
    shuffled: bool,
    opening: AbstractContextManager[Sequence[Peer]],
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Probed:
    """Continue each chain from 0 to all of its steps, and write one line each to ``output``, in order.

    ``samples`` continuations of each prefix are drawn, with ``shuffled`` of prefixes of other chains as well.
    ``opening`` opens the peers, once everything else is checked; ``on_progress`` is called with finished and all pairs
    of a chain and a peer.

    Raises:
        BadInputError: unusable chains, output or peers, or an unfinished output of other work.
        PeerFailedError: a peer gives no answer; finished chains are kept.
        ReasonloopError: a peer can draw nothing, or its server does not answer; as before.
    """
    check_output(output)
    by_donor = donors(chains, seed=params.seed) if shuffled else {}
    questions = [
        [*_questions(one, by_donor.get(one.id), samples=samples, seed=params.seed)]
        for one in chains
    ]
    decoding = decoding_of(params.classmate)
    found: dict[str, list[list[list[Row]]]] = {}
    with opening as peers, open_verifier(params.verify) as verifier:
        key = digest_json(
            {
                # The journal holds verdicts, too.
                "code": [code_digest(module) for module in (__name__, PEER_ENGINE)],
                "chains": [[one.id, one.problem.row(), list(one.steps)] for one in chains],
                "peers": [[peer.name, peer.identity] for peer in peers],
                "decoding": asdict(decoding),
                "samples": samples,
                "seed": params.seed,
                "shuffled": shuffled,
                "verify": params.verify.model_dump(mode="json"),
            }
        )
        journal = open_journal(output.with_name(f"{output.name}.partial"), key=key)
        done, total = 0, len(peers) * len(chains)
        on_progress(done, total)
        for peer in peers:
            found[peer.name] = []
            for place, group in enumerate(_groups(questions, samples)):
                name = f"{peer.name} {place}"
                if name not in journal.pieces:
                    journal.add(name, {"chains": _draw(peer, group, decoding, verifier)})
                found[peer.name] += journal.pieces[name]["chains"]
                done += len(group)
                on_progress(done, total)
        leaks = first_leaks(chains, verifier)
    rows = [
        _row(chain, {name: own[place] for name, own in found.items()}, leak, params.evaluate)
        for place, (chain, leak) in enumerate(zip(chains, leaks, strict=True))
    ]
    write_json_lines(output, rows)
    journal.remove()
    return Probed(chains=chains, rows=rows, notes=[*_notes(found)])


def _questions(chain: Chain, donor: Chain | None, *, samples: int, seed: int) -> Iterator[Question]:
    """One for each number of kept steps; then from 1 on with as large a share of the donor's steps, rounded down."""
    steps = len(chain.steps)
    prefixes = [("own", kept, chain.steps[:kept]) for kept in range(steps + 1)]
    if donor is not None:
        prefixes += [
            ("shuffled", kept, donor.steps[: kept * len(donor.steps) // steps])
            for kept in range(1, steps + 1)
        ]
    for of, kept, prefix in prefixes:
        # No peer's name: all peers continue a prefix with the same seeds.
        seeds = consecutive_seeds(samples, seed, "probe", of, chain.id, kept)
        yield Question(problem=chain.problem, prefix="".join(prefix), seeds=tuple(seeds))


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
