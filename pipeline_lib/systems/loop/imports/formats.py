"""Rollouts in the files of other tools. Files are data: nothing that they name is imported or run.

Sources: verl 0.7 `RayPPOTrainer._dump_generations`; TRL 1.16 `GRPOTrainer.log`; verifiers 0.1 `state_to_output` and 0.4
`Trace`, `Episode`; Inspect 0.3.285 `inspect_ai.log`; lm-evaluation-harness 0.4 `EvaluationTracker.save_results_samples`.
"""

import json
import math
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pipeline_lib.errors import BadInputError, errors_at, needs_extra
from pipeline_lib.problems.data_set import file_rows
from pipeline_lib.records import Row

MAIN = {"verl": "score", "verifiers": "reward"}
"""The reward that sums up all others, by format."""
_BEGINNING_BYTES = 1 << 20
_GOLDS = ("gts", "ground_truth", "gold", "target", "answer", "solution")
_QUESTIONS = ("question", "problem", "query", "input", "prompt")
_NO_REWARDS = {"step", "advantage", "doc_id", *_GOLDS}
_INSPECT_VALUES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One text, with values as in the file; what reads lines of paths checks them."""

    where: str
    """File and line, row or sample."""
    question: Any
    text: Any
    """None: the request failed."""
    gold: Any
    rewards: Mapping[str, float]
    name: Any
    """Id of the problem."""
    model: Any
    step: int | None
    truncated: bool
    task: Row | None
    """The problem of the kind `verifiers`: question, turns before the text, gold."""


def read_rollouts(path: pathlib.Path, name: str | None = None) -> tuple[str, list[Rollout]]:
    """The format of a file, ``name`` or the first one whose keys its first record has, and its texts.

    Raises:
        BadInputError: no file, no record, or one that cannot be read; with file, line and remedy.
    """
    if not path.is_file():
        raise BadInputError(f"{path}: no such file")
    found: dict[Any, Rollout] = {}
    for where, row in _records(path, name):
        name = name or _recognized(row, where)
        wrong = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError)
        remedy = "remove it, or give another --format"
        with errors_at(where, *wrong, fault=f"no rollout of {name}", remedy=remedy):
            for own in FORMATS[name][0](row):
                key, step = own.get("key", len(found)), own.get("step")
                earlier = found[key].rewards if key in found else {}
                found[key] = Rollout(
                    where=where,
                    question=_said(own["question"], by="user"),
                    text=_said(own["text"], by="assistant"),
                    gold=_first(own["golds"], _GOLDS),
                    rewards={**earlier, **_numbers(own["rewards"])},
                    name=own.get("name"),
                    model=own.get("model"),
                    step=None if step is None else int(step),
                    truncated=bool(own.get("truncated")),
                    task=own.get("task"),
                )
    if not name or not found:
        raise BadInputError(f"{path}: holds no rollout; give a file with at least one")
    return name, [*found.values()]


def _recognized(row: Row, where: str) -> str:
    for name, (_, forms) in FORMATS.items():
        if any({*keys.split()} <= row.keys() for keys in forms):
            return name
    keys, known = ", ".join(map(str, row)), "|".join(FORMATS)
    raise BadInputError(f"{where}: keys {keys} are of no known format; give --format {known}")


def _records(path: pathlib.Path, name: str | None) -> Iterable[tuple[str, Row]]:
    with path.open("rb") as stream:
        beginning = stream.read(_BEGINNING_BYTES)
    is_zip, is_log = beginning.startswith(b"PK\3\4"), b'"eval_id"' in beginning
    if name != "inspect" and (name or not (is_zip or is_log)):
        return ((row.where, dict(row.fields)) for row in file_rows(path))
    with needs_extra("inspect", "the log format"):
        from inspect_ai.log import read_eval_log  # noqa: PLC0415 - an optional package

    form: Literal["eval", "json"] = "eval" if is_zip else "json"
    unread = {"events", "store"}
    # Of zip, JSON and pydantic.
    with errors_at(path, Exception, fault="damaged, or of another format"):
        log = read_eval_log(path, resolve_attachments=True, format=form, exclude_fields=unread)
    return (
        (
            f"{path}: sample {one.id}, epoch {one.epoch}",
            {**one.model_dump(mode="json", exclude=unread), "model": log.eval.model},
        )
        for one in log.samples or ()
    )


def _verl(row: Row) -> Iterator[Row]:
    own = {"question": row["input"], "text": row["output"], "step": row["step"]}
    yield {**own, "golds": row, "rewards": row}


def _trl(row: Row) -> Iterator[Row]:
    own = {"question": row["prompt"], "text": row["completion"], "step": row["step"]}
    yield {**own, "golds": row, "rewards": row}


def _verifiers(row: Row) -> Iterator[Row]:
    """A result of the older form; an episode, or one of its traces."""
    if "completion" in row:
        rewards = {"reward": row["reward"], **(row.get("metrics") or {})}
        own = {"question": row["prompt"], "text": row["completion"], "name": row.get("example_id")}
        yield {**own, "golds": row, "rewards": rewards, "truncated": row.get("is_truncated")}
        return
    for trace in row.get("traces", [row]):
        task, last = trace["task"], (trace.get("calls") or [{}])[-1]
        rewards = {name: one for name, one in trace["rewards"].items() if one is not None}
        total = sum(one["score"] * one["weight"] for one in rewards.values())
        named = {name: one["score"] for name, one in rewards.items()}
        if not trace["agent"].get("trainable", True):
            continue  # of a user or a judge that a model plays
        nodes = _branch(trace["nodes"])
        # An empty reply is written without content.
        turns = [
            (one["message"]["role"], _said(one["message"].get("content") or "", by=""))
            for one in nodes
        ]
        reply = turns.pop()[1] if turns else None
        name = row.get("env", {}).get("id", "").rpartition("+")[2].partition("{")[0]
        entry = json.dumps({"data": task["data"], "nodes": nodes[:-1]})
        asked = "\n\n".join(text for role, text in turns if role != "system")
        gold = {"of": f"verifiers:{name}", "entry": entry}
        yield {
            "question": _first(task["data"], _QUESTIONS),
            "task": {"question": asked, "turns": turns, "gold": gold} if name else None,
            # After an error the last reply is one to an earlier turn, and no answer.
            "text": None if trace.get("errors") else reply,
            "golds": task["data"],
            "name": task.get("key"),
            "model": last.get("model"),
            "step": ((row.get("run") or {}).get("work") or {}).get("step"),
            "rewards": {"reward": total, **named} if named else {},
            "truncated": last.get("finish_reason") == "length",
        }


def _branch(nodes: Sequence[Row]) -> list[Row]:
    """The messages up to the last one that the model wrote, if any."""
    path: list[Row] = []
    place = max((at for at, node in enumerate(nodes) if node.get("sampled")), default=None)
    while place is not None and len(path) < len(nodes):
        node = nodes[place]
        path.insert(0, {"message": node["message"], "sampled": bool(node.get("sampled"))})
        place = node.get("parent")
    return path


def _inspect(row: Row) -> Iterator[Row]:
    choices = row["output"]["choices"]
    values = {scorer: one["value"] for scorer, one in (row["scores"] or {}).items()}
    yield {
        "question": row["input"],
        "text": row["output"]["completion"] if choices else None,
        "golds": row,
        "name": row["id"],
        "model": row["model"],
        "rewards": {name: _INSPECT_VALUES.get(str(one), one) for name, one in values.items()},
        "truncated": choices and choices[0]["stop_reason"] == "max_tokens",
    }


def _lm_eval(row: Row) -> Iterator[Row]:
    """A text of each repeat; there is a record for each filter."""
    names, repeated = row.get("metrics") or row.keys(), row.get("scores_per_repeat") or {}
    texts = [text for request in row["resps"] for text in request]
    doc = {"prompt": row["arguments"]["gen_args_0"]["arg_0"], **row["doc"]}
    for place, text in enumerate(texts):
        alone = {name: row[name] for name in names if name in row} if len(texts) == 1 else {}
        scores = _numbers(alone or {name: one[place] for name, one in repeated.items()})
        suffix = f",{row['filter']}" if "filter" in row else ""
        own = {"question": _first(doc, _QUESTIONS), "text": text, "name": row["doc_id"]}
        rewards = {f"{name}{suffix}": one for name, one in scores.items()}
        golds = {**doc, "gts": row["target"]}
        yield {**own, "golds": golds, "rewards": rewards, "key": (row["doc_id"], place)}


def _first(values: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((values[name] for name in names if values.get(name) is not None), None)


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    found = {name: one for name, one in row.items() if isinstance(one, int | float)}
    return {n: float(x) for n, x in found.items() if n not in _NO_REWARDS and math.isfinite(x)}


def _said(value: Any, *, by: str) -> Any:
    """The last message ``by`` a role, its parts as one text; None if there is no message."""
    if not isinstance(value, list):
        return value
    if all("role" in one for one in value):
        contents = [one["content"] for one in value if one["role"] == by]
        return _said(contents[-1] or "", by=by) if contents else None
    return "".join(one["text"] for one in value if one.get("type") == "text")


FORMATS: Mapping[str, tuple[Callable[[Row], Iterator[Row]], tuple[str, ...]]] = {
    "verl": (_verl, ("input output score step",)),
    "trl": (_trl, ("step prompt completion advantage",)),
    "verifiers": (_verifiers, ("prompt completion reward", "task traces", "task nodes")),
    "inspect": (_inspect, ("epoch target output",)),
    "lm-eval": (_lm_eval, ("doc resps filtered_resps",)),
}
"""By name: the reader, and sets of keys of which a record has one."""
