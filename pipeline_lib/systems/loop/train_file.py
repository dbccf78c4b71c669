"""A training on rows of a JSON-lines file, outside of a workspace."""

import pathlib
from collections.abc import Sequence

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.train import ONLINE, Method
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Problem, Row
from pipeline_lib.store.files import digest_json, read_json_lines
from pipeline_lib.store.folders import check_output_folder
from pipeline_lib.store.keys import stage_key
from pipeline_lib.systems.loop.build_file import warm_start_file
from pipeline_lib.train.methods import TrainingRequest, TrainingSummary, train_policy
from pipeline_lib.train.phases import Progress
from pipeline_lib.train.tracking.trackers import trackers_beside
from pipeline_lib.train.weights import policies
from pipeline_lib.verify.lines import UNKNOWN, parse_line

_FIELDS = {Method.SFT: ("prompt", "completion"), Method.DPO: ("prompt", "chosen", "rejected")}
_ONLINE_FIELDS = ("problem_id", "prompt")


def train_on_file(
    base: str,
    source: pathlib.Path,
    output: pathlib.Path,
    params: Params,
    *,
    progress: Progress | None = None,
) -> TrainingSummary:
    """Train ``base`` by ``train.method`` on the rows of ``source``, as the first round of a run does.

    Raises:
        BadInputError: unusable base, rows or output; the message names file, line and key.
    """
    train = params.train
    check_output_folder(output, kind=policies.KIND)
    rows = _read(source, _FIELDS.get(train.method, _ONLINE_FIELDS))
    beside = warm_start_file(source)
    warm_start: Sequence[Row] = ()
    if train.method in ONLINE and train.warm_start_steps and beside.exists():
        warm_start = _read(beside, _FIELDS[Method.SFT])
    asked = _problems(beside, warm_start, needed=False)
    asked |= _problems(source, rows, needed=train.method in ONLINE)
    return train_policy(
        TrainingRequest(
            base=base,
            output=output,
            rows=rows,
            warm_start_rows=warm_start,
            problems=[*asked.values()],
            params=train,
            verify=params.verify,
            max_new_tokens=params.sample.max_new_tokens,
            serve=params.serve,
            seed=params.seed,
            key=stage_key(
                __name__,
                params={
                    "train": train.model_dump(exclude={"control"}),
                    "verify": params.verify.model_dump(),
                    "max_new_tokens": params.sample.max_new_tokens,
                    "serve": params.serve.model_dump() if train.rollouts == "endpoint" else None,
                    "seed": params.seed,
                },
                inputs={
                    "start": model_identity(base),
                    "rows": digest_json(rows),
                    "warm start": digest_json([*warm_start]),
                },
            ),
            progress=progress,
            trackers=trackers_beside(output, params.execution.report_to),
        )
    )


def _read(source: pathlib.Path, fields: Sequence[str]) -> list[Row]:
    rows = list(read_json_lines(source))
    for number, row in enumerate(rows, 1):
        for name in fields:
            if not isinstance(row.get(name), str):
                raise BadInputError(
                    f"{source}:{number}: {name} is no text; these rows need {', '.join(fields)}"
                )
    return rows


def _problems(source: pathlib.Path, rows: Sequence[Row], *, needed: bool) -> dict[str, Problem]:
    """The problems of rows with a gold, by id; ``needed``: a row without one is refused."""
    found: dict[str, Problem] = {}
    for number, row in enumerate(rows, 1):
        name = str(row.get("problem_id", ""))
        if name in found or not (needed or "kind" in row):
            continue
        line = parse_line({**row, "text": None}, where=f"{source}:{number}")
        found[name] = Problem(id=name, question=line.question, gold=line.gold, source=UNKNOWN)
    return found
