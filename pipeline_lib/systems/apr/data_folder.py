"""A folder of Countdown problems and traces: written by several processes, resumed, sealed last.

``problems/{train,valid,test}.jsonl`` holds the problems, ``traces/{parallel,serial}`` a table with a row a
sequence, and ``settings.json`` the params and the seed.
"""

import multiprocessing
import pathlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError

from pipeline_lib.errors import BadInputError, first_fault
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.kind import DistinctIds
from pipeline_lib.params.apr import AprDataParams
from pipeline_lib.problems.countdown import NAME, problem_id, question_of, splits
from pipeline_lib.records import Problem, Row
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.files import numbered_json_lines, read_checked, write_json, write_json_lines
from pipeline_lib.store.folders import (
    check_output_folder,
    is_unfinished,
    remove_leftovers,
    replaced,
)
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import MANIFEST_NAME, Manifest
from pipeline_lib.systems.apr.countdown.lines import KINDS, Kind
from pipeline_lib.systems.apr.countdown.traces import trace_rows

KIND = "adaptive-data"
SETTINGS_NAME = "settings.json"
Split = str
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
_PROBLEMS = "problems"
_PROBLEMS_KIND = "adaptive-problems"
_TRACES_KIND = "adaptive-traces"

Progress = Callable[[int, int], None]
"""Called with the shards done and their total."""


class DataSettings(BaseModel):
    """Params and seed of a data folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: AprDataParams
    seed: int


class ProblemLine(BaseModel):
    """A line of a file of problems."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    numbers: tuple[StrictInt, ...] = Field(min_length=2)
    target: StrictInt

    @property
    def gold(self) -> CountdownGold:
        """The problem."""
        return CountdownGold(numbers=self.numbers, target=self.target)

    @property
    def question(self) -> str:
        """The id of the problem where numbers and target name it."""
        return problem_id(tuple(sorted(self.numbers)), self.target)

    def row(self) -> Row:
        """As the row of a `Problem`, with sorted numbers."""
        gold = CountdownGold(numbers=tuple(sorted(self.numbers)), target=self.target)
        question = question_of(gold.numbers, gold.target)
        return Problem(id=self.id, question=question, gold=gold, source=NAME).row()


def generate_data(
    params: AprDataParams,
    output: pathlib.Path,
    *,
    seed: int,
    workers: int,
    replaces: bool = False,
    progress: Progress = lambda _done, _total: None,
) -> Manifest:
    """Write problems and the traces of the training problems; finished parts of the same data are kept.

    One call at a time may write to a folder: temporary files of a killed call are removed. The number of workers,
    processes, changes no byte of the result. With ``replaces`` data of other params or of another seed in ``output`` is
    replaced, not refused.

    Raises:
        BadInputError: ``output`` holds other files or other data, or the ranges hold too few distinct
            problems.
    """
    settings = DataSettings(data=params, seed=seed)
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
    problems = _draw_problems(settings)
    remove_leftovers([output])
    # From here on the folder is of this data, finished or not.
    (output / MANIFEST_NAME).unlink(missing_ok=True)
    with replaced(output / _PROBLEMS) as fresh:
        for split, some in problems.items():
            rows = [problem.model_dump(mode="json") for problem in some]
            write_json_lines(fresh / f"{split}.jsonl", rows)
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


def _draw_problems(settings: DataSettings) -> dict[Split, list[ProblemLine]]:
    params = settings.data
    # The test split does not depend on the sizes of the others, nor valid on the size of train.
    counts = {
        "test": params.test_problems,
        "valid": params.valid_problems,
        "train": params.train_problems,
    }
    drawn = splits(params.countdown, seed=settings.seed, counts=counts)
    return {
        split: [ProblemLine(id=one.id, **asdict(one.gold)) for one in some]
        for split, some in drawn.items()
    }


def _write_traces(
    output: pathlib.Path,
    problems: Sequence[ProblemLine],
    settings: DataSettings,
    key: str,
    workers: int,
    progress: Progress,
) -> dict[str, float]:
    pieces = shards.split(problems, settings.data.shard_size)
    work = [
        (output, kind, i, piece, settings, key) for kind in KINDS for i, piece in enumerate(pieces)
    ]
    if workers == 1:
        for done, shard in enumerate(work, 1):
            _write_shard(*shard)
            progress(done, len(work))
    else:
        # A forked process would inherit the threads of this one.
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(workers, len(work)), mp_context=spawn) as pool:
            futures = [pool.submit(_write_shard, *shard) for shard in work]
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                progress(done, len(work))
    counts: dict[str, float] = {}
    for kind in KINDS:
        table = shards.seal_table(
            traces_folder(output, kind), len(pieces), kind=_TRACES_KIND, key=key
        )
        counts |= {f"{kind}_{name}": count for name, count in table.counts.items()}
    return counts


def _write_shard(
    data: pathlib.Path,
    kind: Kind,
    index: int,
    problems: Sequence[ProblemLine],
    settings: DataSettings,
    key: str,
) -> None:
    folder, where = traces_folder(data, kind), {"kind": _TRACES_KIND, "key": key}
    if shards.finished_shard(folder, index, **where) is not None:
        return
    traces = [
        trace_rows(problem.id, problem.gold, kind, settings.data, seed=settings.seed)
        for problem in problems
    ]
    counts = {"problems": len(traces), "solved": sum(trace[0]["solved"] for trace in traces)}
    rows = [row for trace in traces for row in trace]
    shards.write_shard(folder, index, rows, counts=counts, **where)


def traces_folder(data: pathlib.Path, kind: Kind) -> pathlib.Path:
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


def read_problems(path: pathlib.Path) -> list[ProblemLine]:
    """The problems of a JSON-lines file.

    Raises:
        BadInputError: a missing file, a malformed line, or an id that occurs twice, with its line.
    """
    problems: list[ProblemLine] = []
    ids = DistinctIds()
    for number, value in numbered_json_lines(path):
        try:
            problem = ProblemLine.model_validate(value)
        except ValidationError as error:
            raise BadInputError(
                f"{path}:{number}: {first_fault(error)}; expected id, numbers and target"
            ) from error
        ids.add(problem.id, path=path, number=number)
        problems.append(problem)
    return problems


def problem_file(data: pathlib.Path, split: Split) -> pathlib.Path:
    """The problems of a split."""
    return data / _PROBLEMS / f"{split}.jsonl"
