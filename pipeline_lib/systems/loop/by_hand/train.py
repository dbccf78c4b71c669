"""A training on rows of a JSON-lines file, outside of a workspace."""

import pathlib
from collections.abc import Sequence

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.train import ONLINE, Method
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Problem, Row
from pipeline_lib.store.files import digest_json, numbered_json_lines
from pipeline_lib.store.folders import check_output_folder
from pipeline_lib.store.keys import stage_key
from pipeline_lib.systems.loop.by_hand.build import warm_start_file
from pipeline_lib.systems.loop.train import training_settings
from pipeline_lib.train.methods import TrainingRequest, TrainingSummary, train_policy
from pipeline_lib.train.phases import Progress
from pipeline_lib.train.tracking.trackers import trackers_beside
from pipeline_lib.train.weights import policies
from pipeline_lib.verify.lines import parse_line

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

    An online method with ``warm_start_steps`` needs the file of `warm_start_file`.

    Raises:
        BadInputError: unusable base, rows or output; the message names file, line and key.
    """
    train = params.train
    check_output_folder(output, kind=policies.KIND)
    is_online = train.method in ONLINE
    asked: dict[str, Problem] = {}
    warm_start: list[Row] = []
    if is_online and train.warm_start_steps:
        beside = warm_start_file(source)
        if not beside.exists():
            raise BadInputError(
                f"{beside}: no such file, so there is nothing to warm-start on; build the rows again, or set "
                "train.warm_start_steps=0"
            )
        warm_start = _read(beside, _FIELDS[Method.SFT], asked, needs_gold=False)
    fields = _FIELDS.get(train.method, _ONLINE_FIELDS)
    rows = _read(source, fields, asked, needs_gold=is_online)
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
                params={**training_settings(params), "seed": params.seed},
                inputs={
                    "start": model_identity(base),
                    "rows": digest_json(rows),
                    "warm start": digest_json(warm_start),
                },
            ),
            progress=progress,
            trackers=trackers_beside(output, params.execution),
        )
    )


def _read(
    source: pathlib.Path, fields: Sequence[str], asked: dict[str, Problem], *, needs_gold: bool
) -> list[Row]:
    """The rows of a file; problems with a gold are added to ``asked`` by their id."""
    rows = []
    for number, row in numbered_json_lines(source):
        where = f"{source}:{number}"
        for name in fields:
            if not isinstance(row.get(name), str):
                raise BadInputError(
                    f"{where}: {name} is no text; these rows need {', '.join(fields)}"
                )
        name = str(row.get("problem_id", ""))
        if name not in asked and (needs_gold or "kind" in row):
            line = parse_line({**row, "problem_id": name, "text": None}, where=where)
            asked[name] = line.problem()
        rows.append(row)
    return rows
