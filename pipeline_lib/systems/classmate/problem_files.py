"""Problems of Classmate on disk: one file of JSON lines per split, in one sealed folder."""

import pathlib
from collections.abc import Callable
from dataclasses import asdict

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.code import CODE
from pipeline_lib.kinds.countdown import COUNTDOWN
from pipeline_lib.kinds.hops import HOPS
from pipeline_lib.kinds.math import MATH
from pipeline_lib.kinds.own import OWN
from pipeline_lib.kinds.program import PROGRAM
from pipeline_lib.params.paths import PrepareParams
from pipeline_lib.problems.data_set import source_identity
from pipeline_lib.problems.splits import Splits, split_notes
from pipeline_lib.records import Problem
from pipeline_lib.sampling.splits import checked_splits
from pipeline_lib.store.files import read_json_lines, write_json_lines
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.store.reuse import Unit, make_folder
from pipeline_lib.store.workspace import SPLITS
from pipeline_lib.telemetry import record_event

KINDS = (COUNTDOWN, MATH, CODE, PROGRAM, OWN, HOPS)
"""Of problems whose chains `first_leaks` reads answers in; a grid can be stated in ways that it does not read."""
_KIND = "problems"


def make_problems(
    params: PrepareParams, folder: pathlib.Path, *, root: pathlib.Path, stage: str, seed: int
) -> Manifest:
    """Write the splits of the data set into ``folder``, unless they exist under the same key.

    Raises:
        BadInputError: the data set cannot be used, or its problems are of a kind without a rule for leaks.
    """
    key = stage_key(
        __name__,
        params={**params.model_dump(mode="json"), "seed": seed},
        inputs=source_identity(params.source),
    )

    def fill(fresh: pathlib.Path) -> dict[str, float]:
        splits = _load(params, seed=seed, say=lambda text: record_event(root, "note", text=text))
        for split in SPLITS:
            write_json_lines(_file(fresh, split), [one.row() for one in getattr(splits, split)])
        return dict(splits.report.drawn)

    unit = Unit(workspace=root, stage=stage, key=key, label=f"{stage} problems")
    return make_folder(unit, folder, kind=_KIND, fill=fill)


def read_problems(folder: pathlib.Path, split: str) -> list[Problem]:
    """The problems of one of the SPLITS."""
    return [Problem.from_row(row) for row in read_json_lines(_file(folder, split))]


def load_problems(
    params: PrepareParams, split: str, *, seed: int, say: Callable[[str], None] = lambda _: None
) -> list[Problem]:
    """The same problems, loaded or generated anew; splits that are smaller than wanted are said.

    Raises:
        BadInputError: as `make_problems`.
    """
    return list(getattr(_load(params, seed=seed, say=say), split))


def _load(params: PrepareParams, *, seed: int, say: Callable[[str], None]) -> Splits:
    splits = checked_splits(params, seed=seed)
    for text in split_notes(asdict(splits.report), section="classmate.prepare").values():
        say(text)
    kinds = {problem.kind for split in SPLITS for problem in getattr(splits, split)}
    for kind in kinds:
        if kind not in KINDS:
            raise BadInputError(
                f"classmate.prepare.dataset={params.dataset}: kind {kind.name} has no rule for chains that give "
                "their answer away; use problems of mathematics, Countdown or code"
            )
    return splits


def _file(folder: pathlib.Path, split: str) -> pathlib.Path:
    return folder / f"{split}.jsonl"
