"""Judged paths of evaluated policies, in shards on disk, so that a killed evaluation continues."""

import pathlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.started_engine import started_engine
from pipeline_lib.params.paths import SampleParams
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Group, JudgedPath, Path, Problem, Row
from pipeline_lib.sampling.paths import sample_paths
from pipeline_lib.store import shards
from pipeline_lib.store.files import digest_json
from pipeline_lib.store.keys import stage_key
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.dispatch import Verifier
from pipeline_lib.verify.judged_paths import judge_paths

_KIND = "classmate-paths"


def judged_groups(  # noqa: PLR0913 - what the paths depend on
    model: str,
    problems: Sequence[Problem],
    folder: pathlib.Path,
    params: Params,
    *,
    verifier: Verifier,
    log_folder: pathlib.Path,
    moved: Callable[[int, int], None],
) -> list[Group]:
    """Draw and judge ``evaluate.num_paths`` paths of a policy per problem; finished shards are read.

    A shard with a path that could not be drawn or judged is drawn again by the next call.

    Args:
        model: Hugging Face folder or hub id.
        problems: in the order of the groups.
        folder: table of the shards.
        params: sections sample, evaluate, verify and serve, and the seed.
        verifier: of the paths.
        log_folder: of an engine's server.
        moved: called with finished and all shards.

    Raises:
        BadInputError: the model cannot be loaded.
    """
    sampling = params.sample.model_copy(update={"num_paths": params.evaluate.num_paths})
    key = _key(model, problems, sampling, params)
    rows: list[Row] = []
    with ExitStack() as stack:
        engine = None
        parts = shards.split(problems, sampling.shard_size)
        for index, part in enumerate(parts):
            if shards.finished_shard(folder, index, kind=_KIND, key=key) is not None:
                found = shards.read_shard(folder, index)
            else:
                if engine is None:
                    engine = stack.enter_context(
                        started_engine(
                            model,
                            params.serve,
                            log_folder=log_folder,
                            batch_size=sampling.batch_size,
                        )
                    )
                # Equal seeds for all policies.
                paths = sample_paths(
                    part, engine, sampling, seed=params.seed, draw="classmate-evaluate"
                )
                verdicts = judge_paths(paths, part, verifier)
                found = [
                    {**path.row(), **verdict.row()}
                    for path, verdict in zip(paths, verdicts, strict=True)
                ]
                if all(verdict.lenient is not None for verdict in verdicts):
                    shards.write_shard(folder, index, found, kind=_KIND, key=key)
            rows += found
            moved(index + 1, len(parts))
    return list(_groups(problems, rows, num_paths=sampling.num_paths))


def _groups(problems: Sequence[Problem], rows: Sequence[Row], *, num_paths: int) -> Iterator[Group]:
    for problem, own in zip(problems, shards.split(rows, num_paths), strict=True):
        members = [
            JudgedPath(path=Path.from_row(row), verdict=Verdict.from_row(row)) for row in own
        ]
        yield Group(problem=problem, members=members)


def _key(model: str, problems: Sequence[Problem], sampling: SampleParams, params: Params) -> str:
    return stage_key(
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
