"""Traces in the released form of arXiv 2504.15466, as a data folder that models are trained on.

A file is a JSON list. An item has ``nums`` and ``target``; a parallel one ``trace_dict`` with ``main_calls``, the texts of
the root thread after each join, and ``sub_calls``, for each spawn the ``trace_dict`` of every child; a serial one
``search_path``, the text.
"""

import pathlib
from collections.abc import Sequence
from dataclasses import replace

from pydantic import BaseModel, Field, StrictInt, StrictStr, model_validator

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.apr import AprDataParams
from pipeline_lib.params.paths import CountdownParams
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.files import digest_file, read_checked, write_json, write_json_lines
from pipeline_lib.store.folders import check_output_folder, replaced
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.systems.apr.countdown import lines
from pipeline_lib.systems.apr.countdown.lines import Kind, Trace, TraceSequence
from pipeline_lib.systems.apr.countdown.traces import rows_of_trace
from pipeline_lib.systems.apr.data_folder import (
    KIND,
    SETTINGS_NAME,
    SPLITS,
    TRACES_KIND,
    DataSettings,
    problem_file,
    traces_folder,
)
from pipeline_lib.systems.apr.model_record import RECORD_NAME, ThreadModelRecord
from pipeline_lib.systems.apr.problem_lines import countdown_problem, row_of_problem

_WINDOW = 4096
"""Tokens of a sequence of the released models."""


class _Calls(BaseModel, extra="ignore", frozen=True):
    main_calls: tuple[StrictStr, ...] = Field(min_length=1)
    sub_calls: tuple[tuple["_Calls", ...], ...] = ()


class _Item(BaseModel, extra="ignore", frozen=True):
    nums: tuple[StrictInt, ...] = Field(min_length=2)
    target: StrictInt
    trace_dict: _Calls | None = None
    search_path: StrictStr = ""

    @model_validator(mode="after")
    def _has_trace(self) -> "_Item":
        if self.trace_dict is None and not self.search_path:
            raise ValueError("neither trace_dict nor search_path")
        return self


def import_traces(
    source: pathlib.Path, output: pathlib.Path, *, model: pathlib.Path | None = None
) -> Manifest:
    """Write the traces of a released file to a data folder; ``model`` gets a record as of one that is trained on them.

    Raises:
        BadInputError: an item that cannot be used, with its place, or ``output`` holds something else.
    """
    check_output_folder(output, kind=KIND)
    items = _items(source)
    kind: Kind = "serial" if items[0].trace_dict is None else "parallel"
    sizes = {len(item.nums) for item in items}
    if len(sizes) > 1:
        raise BadInputError(
            f"{source}: problems of {sorted(sizes)} numbers; give a file of one number"
        )
    if len({item.trace_dict is None for item in items}) > 1:
        raise BadInputError(f"{source}: parallel and serial traces; give a file of one kind")
    data = AprDataParams(
        style="published",
        countdown=CountdownParams(num_numbers=sizes.pop(), high=99),
        train_problems=len(items),
    )
    problems = [
        countdown_problem(
            f"{source.stem}-{place}", CountdownGold(numbers=item.nums, target=item.target)
        )
        for place, item in enumerate(items)
    ]
    rows = [
        row
        for problem, item in zip(problems, items, strict=True)
        for row in rows_of_trace(problem.id, _trace(item), kind, data)
    ]
    key = stage_key(__name__, params={}, inputs={"file": digest_file(source)})
    with replaced(output) as fresh:
        for split in SPLITS:
            some = problems if split == "train" else []
            write_json_lines(problem_file(fresh, split), map(row_of_problem, some))
        write_json(fresh / SETTINGS_NAME, DataSettings(data=data, seed=0).model_dump(mode="json"))
        shards.write_table(traces_folder(fresh, kind), rows, kind=TRACES_KIND, key=key)
        counts = {f"{kind}_problems": len(items), f"{kind}_rows": len(rows)}
        manifest = manifests.seal(fresh, kind=KIND, key=key, counts=counts)
    if model is not None:
        record = ThreadModelRecord(
            kind=kind,
            style="published",
            num_numbers=data.countdown.num_numbers,
            window=_WINDOW,
            conditions=tuple(sorted({"", *(row["condition"] for row in rows)})),
        )
        write_json(model / RECORD_NAME, record.model_dump(mode="json"))
    return manifest


def _items(source: pathlib.Path) -> list[_Item]:
    items = read_checked(source, list[_Item], remedy="give a JSON list of traces")
    if not items:
        raise BadInputError(f"{source}: no traces")
    return items


def _trace(item: _Item) -> Trace:
    if item.trace_dict is None:
        whole = _sequence(item.search_path, head=1, round_number=0)
        return Trace(sequences=[whole], solved=whole.solved)
    calls = item.trace_dict
    solved = lines.GOAL in calls.main_calls[-1]
    sequences: list[TraceSequence] = []
    for number, text in enumerate(calls.main_calls):
        segment = _sequence(text, head=2, round_number=number)
        sequences.append(replace(segment, solved=solved))
        children: Sequence[_Calls] = (
            calls.sub_calls[number] if number < len(calls.sub_calls) else ()
        )
        sequences += [
            _sequence(child.main_calls[-1], head=2, round_number=number, child=place)
            for place, child in enumerate(children)
        ]
    return Trace(
        sequences=sequences,
        solved=solved,
        spawned=[len(children) for children in calls.sub_calls],
    )


def _sequence(
    text: str, *, head: int, round_number: int, child: int | None = None
) -> TraceSequence:
    """A text cut behind its prompt of ``head`` lines, or behind its last join."""
    text = text.rstrip("\n")
    prefix, joined, _ = text.rpartition(f"\n{lines.END_JOIN}")
    given = prefix + joined if joined and child is None else "\n".join(text.split("\n")[:head])
    return TraceSequence(
        role="parent" if child is None else "child",
        round=round_number,
        child=child,
        prefix=given,
        output=text[len(given) :],
        solved=lines.GOAL in text,
    )
