"""A folder of problems and traces: written by several processes, resumed, sealed last.

``problems/{train,valid,test}.jsonl`` holds the problems, ``traces/{parallel,serial}`` a table with a row a
sequence, and ``settings.json`` the params and the seed.
"""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.apr import AprDataParams
from pipeline_lib.params.paths import PrepareParams
from pipeline_lib.problems.countdown import splits
from pipeline_lib.process_pool import results_of
from pipeline_lib.records import Problem, Row
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.files import read_checked, write_json, write_json_lines
from pipeline_lib.store.folders import (
    check_output_folder,
    is_unfinished,
    remove_leftovers,
    replaced,
)
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import MANIFEST_NAME, Manifest
from pipeline_lib.systems.apr.countdown.lines import KINDS
from pipeline_lib.systems.apr.countdown.traces import trace_rows
from pipeline_lib.systems.apr.problem_lines import row_of_problem
from pipeline_lib.systems.apr.words import parts, tried

KIND = "adaptive-data"
SETTINGS_NAME = "settings.json"
Split = str
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
_PROBLEMS = "problems"
_PROBLEMS_KIND = "adaptive-problems"
TRACES_KIND = "adaptive-traces"

Progress = Callable[[int, int], None]
"""Called with the shards done and their total."""


class DataSettings(BaseModel, extra="forbid", frozen=True):
    """Params and seed of a data folder."""

    data: AprDataParams
    seed: int
    prepare: PrepareParams | None = None
    """The data set of a task of one's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnData:
    """Problems of a task of one's own."""

    prepare: PrepareParams
    draw: Callable[[], Mapping[Split, Sequence[Problem]]]


def generate_data(  # noqa: PLR0913 - what the data depends on
    params: AprDataParams,
    output: pathlib.Path,
    *,
    seed: int,
    workers: int,
    own: OwnData | None = None,
    replaces: bool = False,
    progress: Progress = lambda _done, _total: None,
) -> Manifest:
    """Write problems and the traces of the training problems; finished parts of the same data are kept.

    One call at a time may write to a folder: temporary files of a killed call are removed. The number of workers,
    processes, changes no byte of the result. With ``replaces`` data of other params or of another seed in ``output`` is
    replaced, not refused. ``own`` is of `own_data`.

    Raises:
        BadInputError: ``output`` holds other files or other data, or the ranges hold too few distinct
            problems.
    """
    settings = DataSettings(data=params, seed=seed, prepare=own.prepare if own else None)
    key = stage_key(__name__, params=settings.model_dump(mode="json"), inputs={})
    if not _is_unfinished(output):
        check_output_folder(output, kind=KIND)
    finished = manifests.current(output, kind=KIND, key=key)
    if finished is not None:
        return finished
    for folder in () if replaces else (output, output / _PROBLEMS):
        if (folder / MANIFEST_NAME).is_file() and manifests.read_manifest(folder).key != key:
            raise BadInputError(
                f"{output}: holds data of other params, another seed or version; remove it, or choose "
                "another --output"
            )
    problems = own.draw() if own else _draw_problems(settings)
    remove_leftovers([output])
    # From here on the folder is of this data, finished or not.
    (output / MANIFEST_NAME).unlink(missing_ok=True)
    with replaced(output / _PROBLEMS) as fresh:
        for split, some in problems.items():
            write_json_lines(fresh / f"{split}.jsonl", map(row_of_problem, some))
        manifests.seal(fresh, kind=_PROBLEMS_KIND, key=key)
    write_json(output / SETTINGS_NAME, settings.model_dump(mode="json"))
    counts = _write_traces(output, problems["train"], settings, key, workers, progress)
    return manifests.seal(output, kind=KIND, key=key, counts=counts)


def _is_unfinished(output: pathlib.Path) -> bool:
    """True for a folder of a call that was killed, while its problems were written or after that."""
    problems = output / _PROBLEMS
    if (output / MANIFEST_NAME).is_file():
        return False
    if not (problems / MANIFEST_NAME).is_file():
        left = [*output.iterdir()] if output.is_dir() else []
        return bool(left) and all(map(is_unfinished, left))
    return manifests.read_manifest(problems).kind == _PROBLEMS_KIND


def _draw_problems(settings: DataSettings) -> Mapping[Split, Sequence[Problem]]:
    params = settings.data
    # The test split does not depend on the sizes of the others, nor valid on the size of train.
    counts = {
        "test": params.test_problems,
        "valid": params.valid_problems,
        "train": params.train_problems,
    }
    if params.task == parts.NAME:
        counts[parts.NEW_WORDINGS] = params.parts.wordings_problems
        return {
            split: parts.questions(params.parts, split=split, seed=settings.seed, count=count)
            for split, count in counts.items()
        }
    return splits(params.countdown, seed=settings.seed, counts=counts)


def trace_kinds(params: AprDataParams) -> Sequence[str]:
    """The kinds of traces of a task."""
    return parts.KINDS if params.task == parts.NAME else KINDS


def _write_traces(
    output: pathlib.Path,
    problems: Sequence[Problem],
    settings: DataSettings,
    key: str,
    workers: int,
    progress: Progress,
) -> dict[str, float]:
    pieces = shards.split(problems, settings.data.shard_size)
    work = [
        (output, kind, i, piece, settings, key)
        for kind in trace_kinds(settings.data)
        for i, piece in enumerate(pieces)
    ]
    for done, _ in enumerate(results_of(_write_shard, work, workers=workers), 1):
        progress(done, len(work))
    counts: dict[str, float] = {}
    for kind in trace_kinds(settings.data):
        table = shards.seal_table(
            traces_folder(output, kind), len(pieces), kind=TRACES_KIND, key=key
        )
        counts |= {f"{kind}_{name}": count for name, count in table.counts.items()}
    return counts


_Shard = tuple[pathlib.Path, str, int, Sequence[Problem], DataSettings, str]


def _write_shard(shard: _Shard) -> None:
    data, kind, index, problems, settings, key = shard
    folder, where = traces_folder(data, kind), {"kind": TRACES_KIND, "key": key}
    if shards.finished_shard(folder, index, **where) is not None:
        return
    traces = [_rows_of(problem, kind, settings) for problem in problems]
    counts = {"problems": len(traces), "solved": sum(trace[0]["solved"] for trace in traces)}
    rows = [row for trace in traces for row in trace]
    shards.write_shard(folder, index, rows, counts=counts, **where)


def _rows_of(problem: Problem, kind: str, settings: DataSettings) -> list[Row]:
    if settings.prepare is not None:
        return tried.trace_rows(problem, kind, settings.data.task, seed=settings.seed)
    if not isinstance(problem.gold, CountdownGold):
        return [*parts.trace_rows(problem, kind, settings.data.parts)]
    assert kind in KINDS
    return trace_rows(problem.id, problem.gold, kind, settings.data, seed=settings.seed)


def traces_folder(data: pathlib.Path, kind: str) -> pathlib.Path:
    """The table of the traces of ``kind``."""
    return data / "traces" / kind


def check_data(data: pathlib.Path) -> Manifest:
    """The manifest of a finished data folder, whose files are checked.

    Raises:
        BadInputError: there is no finished folder, or it is damaged.
    """
    if not (data / MANIFEST_NAME).is_file():
        raise BadInputError(
            f"{data}: no finished data; run `reasonloop apr generate --output {data}`"
        )
    manifest = manifests.read_manifest(data)
    if manifest.kind != KIND:
        raise BadInputError(
            f"{data}: holds {manifest.kind}; give a folder of `reasonloop apr generate`"
        )
    manifests.check(data, manifest)
    return manifest


def read_settings(data: pathlib.Path) -> DataSettings:
    """The params and seed of a data folder.

    Raises:
        BadInputError: the file is missing or damaged.
    """
    return read_checked(data / SETTINGS_NAME, DataSettings, remedy="generate the data again")


def problem_file(data: pathlib.Path, split: Split) -> pathlib.Path:
    """The problems of a split."""
    return data / _PROBLEMS / f"{split}.jsonl"
