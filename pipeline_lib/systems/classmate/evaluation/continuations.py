"""Judged continuations of prefixes by all peers, in shards on disk, so that a killed evaluation continues."""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Problem, Row
from pipeline_lib.seeding import consecutive_seeds
from pipeline_lib.store import shards
from pipeline_lib.store.files import digest_json
from pipeline_lib.store.keys import code_digest, stage_key
from pipeline_lib.systems.classmate.evaluation.prefixes import Asked
from pipeline_lib.systems.classmate.panel import open_panel
from pipeline_lib.systems.classmate.peer import BODY, NO_ROOM, Peer, Question
from pipeline_lib.systems.classmate.scoring import Continuations, judge_answers
from pipeline_lib.verify.dispatch import Verifier

_KIND = "classmate-continuations"
_TOGETHER = 128
"""Prefixes that each peer is asked at once."""

Scores = Mapping[tuple[str, Asked], Sequence[bool | None]]
"""Of each continuation, by name of the peer and prefix: the strict verdict, None if it was not drawn or judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued:
    """Continuations of all prefixes."""

    rows: Sequence[Row]
    """peer, problem_id, prefix, text, strict, failure."""

    @property
    def is_complete(self) -> bool:
        """True if another call would draw and judge no further one."""
        return _are_settled(self.rows)

    @property
    def scores(self) -> Scores:
        """The scores of the continuations."""
        found: dict[tuple[str, Asked], list[bool | None]] = {}
        for row in self.rows:
            key = row["peer"], Asked(row["problem_id"], row["prefix"])
            found.setdefault(key, []).append(row["strict"])
        return found


def continue_prefixes(  # noqa: PLR0913 - what the continuations depend on
    asked: Sequence[Asked],
    problems: Mapping[str, Problem],
    peers: Sequence[Peer],
    folder: pathlib.Path,
    params: ClassmateParams,
    *,
    verifier: Verifier,
    verify: VerifyParams,
    seed: int,
    moved: Callable[[int, int], None],
) -> Continued:
    """Ask all peers for ``evaluate.samples`` continuations of each prefix, and judge them.

    Continuations that could not be drawn or judged are asked for again by the next call, unless the prefix
    leaves no room in the peer's context.

    Args:
        asked: distinct prefixes.
        problems: by id.
        peers: with distinct names.
        folder: table of finished shards.
        params: decoding, deadline and number of continuations.
        verifier: of prefix and continuation.
        verify: limits of ``verifier``.
        seed: the root seed.
        moved: called with finished and all shards.
    """
    panel = open_panel(peers, params)
    key = stage_key(
        __name__,
        params={
            "decoding": [params.temperature, params.top_p, params.max_new_tokens, params.do_sample],
            "samples": params.evaluate.samples,
            "verify": verify.model_dump(mode="json"),
            "seed": seed,
        },
        inputs={
            "asked": digest_json([[one.problem_id, one.prefix] for one in asked]),
            "problems": digest_json(
                [problems[name].row() for name in sorted({one.problem_id for one in asked})]
            ),
            "peers": digest_json({peer.name: peer.identity for peer in peers}),
            "body": code_digest(BODY),
        },
    )
    rows: list[Row] = []
    parts = shards.split(asked, _TOGETHER)
    for index, part in enumerate(parts):
        if shards.finished_shard(folder, index, kind=_KIND, key=key) is not None:
            rows += shards.read_shard(folder, index)
        else:
            questions = {
                peer.name: [_question(one, problems, params, seed=seed) for one in part]
                for peer in peers
            }
            judged = _rows(judge_answers(questions, panel.ask(questions).answers(), verifier), part)
            if _are_settled(judged):
                shards.write_shard(folder, index, judged, kind=_KIND, key=key)
            rows += judged
        moved(index + 1, len(parts))
    return Continued(rows=rows)


def _are_settled(rows: Sequence[Row]) -> bool:
    return all(row["strict"] is not None or row["failure"].startswith(NO_ROOM) for row in rows)


def _question(
    asked: Asked, problems: Mapping[str, Problem], params: ClassmateParams, *, seed: int
) -> Question:
    # One seed per problem and prefix: policies with the same prefix have the same continuations.
    names = ("classmate-evaluate", asked.problem_id, asked.prefix)
    return Question(
        problem=problems[asked.problem_id],
        prefix=asked.prefix,
        seeds=tuple(consecutive_seeds(params.evaluate.samples, seed, *names)),
    )


def _rows(judged: Mapping[str, Continuations], asked: Sequence[Asked]) -> list[Row]:
    return [
        {
            "peer": name,
            "problem_id": one.problem_id,
            "prefix": one.prefix,
            "text": continuation.text,
            "strict": continuation.right,
            "failure": continuation.failure,
        }
        for name, groups in judged.items()
        for one, group in zip(asked, groups, strict=True)
        for continuation in group
    ]
