"""Judged paths of policies and judged continuations by peers, in shards on disk, so that a killed evaluation continues."""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TypeVar

from pipeline_lib.engines.chat_model import ChatModel
from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.started_engine import started_engine
from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Group, Problem, Row
from pipeline_lib.sampling.paths import sample_paths
from pipeline_lib.seeding import consecutive_seeds
from pipeline_lib.store import shards
from pipeline_lib.store.files import digest_json
from pipeline_lib.store.keys import code_digest, stage_key
from pipeline_lib.systems.classmate.peer import (
    NO_ROOM,
    PEER_ENGINE,
    Peer,
    Peers,
    Question,
    judge_answers,
)
from pipeline_lib.systems.classmate.prefixes import Asked, Scores
from pipeline_lib.train.rows.groups import join_groups
from pipeline_lib.verify.dispatch import Verifier, judge_paths

_PREFIXES_PER_SHARD = 128
"""Prefixes that each peer is asked at once."""

OnProgress = Callable[[int, int], None]
"""Called with the number of finished shards and of all shards."""
Item = TypeVar("Item")


def judged_groups(  # noqa: PLR0913 - what the paths depend on
    model: str,
    problems: Sequence[Problem],
    folder: pathlib.Path,
    params: Params,
    *,
    verifier: Verifier,
    log_folder: pathlib.Path,
    on_progress: OnProgress,
) -> list[Group]:
    """Draw and judge ``evaluate.num_paths`` paths of a policy per problem; finished shards are read.

    A shard with a path that could not be drawn or judged is drawn again by the next call.

    Raises:
        BadInputError: the model cannot be loaded.
    """
    sampling = params.sample.model_copy(update={"num_paths": params.evaluate.num_paths})
    key = stage_key(
        __name__,
        params={
            "sample": sampling.model_dump(mode="json"),
            "engine": [params.serve.engine, list(params.serve.options)],
            "verify": params.verify.model_dump(mode="json"),
            "seed": params.seed,
        },
        inputs={
            "model": model_identity(model),
            "problems": digest_json([problem.row() for problem in problems]),
        },
    )
    with ExitStack() as stack:
        engines: list[ChatModel] = []

        def draw(part: Sequence[Problem]) -> list[Row]:
            if not engines:
                opening = started_engine(
                    model, params.serve, log_folder=log_folder, batch_size=sampling.batch_size
                )
                engines.append(stack.enter_context(opening))
            # Equal seeds for all policies.
            paths = sample_paths(
                part, engines[0], sampling, seed=params.seed, draw="classmate-evaluate"
            )
            verdicts = judge_paths(paths, part, verifier)
            return [
                {**path.row(), **verdict.row()}
                for path, verdict in zip(paths, verdicts, strict=True)
            ]

        rows = _in_shards(
            shards.split(problems, sampling.shard_size),
            folder,
            kind="classmate-paths",
            key=key,
            draw=draw,
            is_complete=lambda found: all(row["lenient"] is not None for row in found),
            on_progress=on_progress,
        )
    return join_groups([problem.row() for problem in problems], rows, rows)


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
    on_progress: OnProgress,
) -> list[Row]:
    """Ask all peers for ``classmate.evaluate.samples`` continuations of each prefix, and judge them.

    Continuations that could not be drawn or judged are asked for again by the next call, unless the prefix
    leaves no room in the peer's context.

    Returns:
        A row for each continuation: peer, problem_id, prefix, text, strict, failure.
    """
    asking = Peers(peers, params)
    key = stage_key(
        __name__,
        params={
            "decoding": [params.temperature, params.top_p, params.max_new_tokens, params.do_sample],
            "samples": params.evaluate.samples,
            "verify": verify.model_dump(mode="json"),
            "seed": seed,
        },
        inputs={
            "asked": digest_json(asked),
            "problems": digest_json(
                [problems[name].row() for name in sorted({name for name, _ in asked})]
            ),
            "peers": digest_json({peer.name: peer.identity for peer in peers}),
            "peer engine": code_digest(PEER_ENGINE),
        },
    )

    def question(one: Asked) -> Question:
        # One seed per problem and prefix: policies with the same prefix have the same continuations.
        seeds = consecutive_seeds(params.evaluate.samples, seed, "classmate-evaluate", *one)
        name, prefix = one
        return Question(problem=problems[name], prefix=prefix, seeds=tuple(seeds))

    def draw(part: Sequence[Asked]) -> list[Row]:
        questions = {peer.name: [*map(question, part)] for peer in peers}
        answers = asking.ask(questions)
        judged = judge_answers(questions, answers(), verifier)
        return [
            {
                "peer": name,
                "problem_id": problem_id,
                "prefix": prefix,
                "text": continuation.text,
                "strict": continuation.right,
                "failure": continuation.failure,
            }
            for name, groups in judged.items()
            for (problem_id, prefix), group in zip(part, groups, strict=True)
            for continuation in group
        ]

    return _in_shards(
        shards.split(asked, _PREFIXES_PER_SHARD),
        folder,
        kind="classmate-continuations",
        key=key,
        draw=draw,
        is_complete=is_complete,
        on_progress=on_progress,
    )


def is_complete(rows: Sequence[Row]) -> bool:
    """True if another call would sample and judge no further continuation."""
    return all(row["strict"] is not None or row["failure"].startswith(NO_ROOM) for row in rows)


def scores_of(rows: Sequence[Row]) -> Scores:
    """Strict verdicts of the continuations, by peer and (problem id, prefix); None where there is none."""
    found: dict[tuple[str, Asked], list[bool | None]] = {}
    for row in rows:
        key = row["peer"], (row["problem_id"], row["prefix"])
        found.setdefault(key, []).append(row["strict"])
    return found


def _in_shards(  # noqa: PLR0913 - draws of two kinds
    parts: Sequence[Sequence[Item]],
    folder: pathlib.Path,
    *,
    kind: str,
    key: str,
    draw: Callable[[Sequence[Item]], list[Row]],
    is_complete: Callable[[Sequence[Row]], bool],
    on_progress: OnProgress,
) -> list[Row]:
    """The rows of all parts. Finished shards are read; only complete ones are written, so others are drawn again."""
    rows: list[Row] = []
    for index, part in enumerate(parts):
        if shards.finished_shard(folder, index, kind=kind, key=key) is not None:
            found = shards.read_shard(folder, index)
        else:
            found = draw(part)
            if is_complete(found):
                shards.write_shard(folder, index, found, kind=kind, key=key)
        rows += found
        on_progress(index + 1, len(parts))
    return rows
