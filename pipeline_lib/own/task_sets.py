"""Problems of reasoning-gym and of verifiers, and the scores of answers to them.

The Python of the tasks environment imports it, in `own.program` and, to score answers to reasoning-gym, in a jail; it
has the packages of `make tasks-env` and none of those of a run, so the top imports the standard library alone.

The full name of a set is a library, a name in it, and options, as in ``gym:gcd{"level": 2}``: of a data set of
reasoning-gym the ``level`` of its curriculum and ``config``, or without a name a mixture, with ``weight`` by name; of
verifiers the fields of the set's config.
"""

import ast
import builtins
import contextlib
import difflib
import functools
import hashlib
import importlib
import inspect
import itertools
import json
import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

LIBRARIES = ("gym", "verifiers")
_CHUNK = 500
"""Rows of one seed: those of a data set may depend on its size."""
_LISTS = ("binary_matrix", "n_queens", "spiral_matrix", "string_insertion")
"""Data sets whose scorers evaluate an answer, which may be a list."""
_FORMULA = re.compile(r"(?:[\w\s+\-*/^(),]|\.(?!\s*[^\W\d]))*")
"""Without quotes, brackets and attributes."""
_NAMES = ("C", "E", "I", "Integral", "oo", "pi")
"""C is a constant of integration; some answers of intermediate_integration are unevaluated integrals."""
_NAME = re.compile(r"[^\W\d]\w*")


def is_task_set(name: str) -> bool:
    """True for a name of a set; there may be none of this name."""
    return name.partition(":")[0] in LIBRARIES


def warm(of: str) -> None:
    """Import, and of reasoning-gym make, what problems and scores need, before processes are forked."""
    if of.startswith("gym:"):
        for data_set in map(_data_set, _members(of)):
            # Scorers import at the first call, and some take a failed import in a jail for a wrong answer.
            with contextlib.suppress(IndexError):
                _score(data_set, (row := data_set[0])["answer"], row)
    else:
        importlib.import_module("verifiers.v1")


def problems(
    of: str, split: str, seed: int, *, wanted: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """Rows as of the data set `lines`; the ``wanted`` splits of verifiers share its tasks out."""
    if of.startswith("gym:"):
        return _mixed(_members(of), split, seed)
    return _tasks(of, split, seed, wanted)


def _name_and_options(of: str) -> tuple[str, dict[str, Any]]:
    name, brace, options = of.partition(":")[2].partition("{")
    return name, json.loads(brace + options or "{}")


def _members(of: str) -> dict[str, float]:
    """Weights of data sets by their full names."""
    weights, (name, options) = {}, _name_and_options(of)
    for one, its in ({name: options} if name else options).items():
        rest = dict(its) if isinstance(its, Mapping) else {"weight": its}
        weight = rest.pop("weight", 1.0)
        weights[f"gym:{one}{json.dumps(rest, sort_keys=True) if rest else ''}"] = weight
    return weights


def _mixed(weights: Mapping[str, float], split: str, seed: int) -> Iterator[dict[str, Any]]:
    rows = {of: _rows(of, split, seed) for of in weights}
    draw = random.Random(f"{split} {seed}")  # noqa: S311 - reproducible
    while True:
        [of] = draw.choices([*rows], [*weights.values()])
        row = next(rows[of])
        answer, asked = {"of": of, "entry": repr(row)}, row["question"]
        own = {"kind": "gym", "question": asked, "answer": answer, "solution": row["answer"]}
        yield {**own, "set": of}


def _rows(of: str, split: str, seed: int) -> Iterator[dict[str, Any]]:
    """Rows without an end; those of another split have other seeds."""
    numpy = importlib.import_module("numpy")
    numpy.set_printoptions(legacy="1.25")  # numbers and texts of NumPy as literals
    for chunk in itertools.count():
        digest = hashlib.sha256(f"{of} {split} {seed} {chunk}".encode()).digest()
        start = int.from_bytes(digest[:4], "big") >> 1
        dataset = _data_set(of, seed=start, size=_CHUNK)
        for place in range(_CHUNK):
            # Some data sets draw from the global generators.
            random.seed(start + place)  # noqa: TID251 - of a process that does nothing else
            numpy.random.seed(start + place)
            try:
                yield dataset[place]
            except IndexError:  # it has fewer rows of this seed
                break


@functools.lru_cache(maxsize=256)
def _data_set(of: str, *, seed: int = 0, size: int = 1) -> Any:
    """The data set of that name; ValueError: there is none, or its config cannot be."""
    name, options = _name_and_options(of)
    if unknown := options.keys() - {"config", "level"}:
        raise ValueError(f"{of}: {unknown.pop()} is none of weight, level, config")
    factory, config = _gym(), {**options.get("config", {}), "seed": seed, "size": size}
    if name not in (known := factory.DATASETS.keys() - {"composite"}):
        close = " or ".join(difflib.get_close_matches(name, known))
        remedy = f"did you mean {close}?" if close else "a mixture is given by prepare.gym"
        raise ValueError(f"{name} is none of the data sets of reasoning-gym; {remedy}")
    if "level" not in options:
        return factory.create_dataset(name, **config)
    curriculum = factory.create_curriculum(name)
    curriculum.set_global_level(options["level"])
    return factory.DATASETS[name][0](config=curriculum.generate_configuration(config))


@functools.cache
def _gym() -> Any:
    """Its data sets, whose scorers read the answers that they would otherwise run."""
    importlib.import_module("reasoning_gym")
    sympy: Any = importlib.import_module("sympy")
    factory = importlib.import_module("reasoning_gym.factory")
    parse, formulas = sympy.parse_expr, {*sympy.functions.__all__, *_NAMES}
    others = {*dir(sympy), *dir(builtins)} - formulas

    def read(text: str, *args: Any, **options: Any) -> Any:
        if not _FORMULA.fullmatch(text) or others.intersection(_NAME.findall(text)):
            raise ValueError("no formula")
        return parse(text, *args, **options)

    sympy.parse_expr = read
    for name, (kind, _) in factory.DATASETS.items():
        names = vars(sys.modules[kind.__module__])
        names |= {"parse_expr": read} if names.get("parse_expr") is parse else {}
        names |= {"eval": ast.literal_eval} if name in _LISTS else {}
    return factory


def main() -> None:
    """Score answers to a row, of JSON on standard input; the last line of the output is their scores."""
    request = json.load(sys.stdin)
    rows = [ast.literal_eval(request["entry"]) for _ in request["answers"]]
    scores = map(_score, itertools.repeat(_data_set(request["of"])), request["answers"], rows)
    sys.stdout.write(f"\n{json.dumps([*scores])}\n")


def _score(data_set: Any, answer: str, row: Any) -> float:
    """0 also where the scorer cannot read the answer; errors of the machine are no verdict."""
    try:
        return float(data_set.score_answer(answer, row))
    except (ImportError, MemoryError, OSError):
        raise
    except Exception:  # noqa: BLE001 - whatever a scorer raises about an answer
        return 0.0


@functools.cache
def _task_set(of: str) -> Any:
    verifiers, (name, options) = importlib.import_module("verifiers.v1"), _name_and_options(of)
    config = verifiers.taskset_config_type(name).model_validate({"id": name, **options})
    return verifiers.load_taskset(config)


def _refuse(of: str, task: Any, *, is_played: bool = False) -> None:
    """ValueError names what a task asks for besides a text; of one that was played its rewards alone are looked at."""
    verifiers, (name, _) = importlib.import_module("verifiers.v1"), _name_and_options(of)
    needs = []
    if not is_played:
        bases = {verifiers.Taskset.__module__, verifiers.Task.__module__}
        hooks = (_task_set(of).toolsets, task.toolsets, task.setup, task.finalize)
        found = {
            "its own environment": verifiers.environment_class(name)
            is not verifiers.SingleAgentEnv,
            "its own harness": verifiers.default_harness_id(name) == name,
            "a container": task.NEEDS_CONTAINER or task.data.image,
            **{f"a runtime for {one.__name__}": one.__module__ not in bases for one in hooks},
        }
        needs = [need for need, is_there in found.items() if is_there]
    for one in (*task.hooks("reward"), *(judge.score for judge in task.plugged_judges())):
        runtime = inspect.signature(one).parameters.get("runtime")
        if runtime is not None and runtime.default is inspect.Parameter.empty:
            needs.append(f"a runtime for {one.__name__}")
    if needs:
        remedy = ": play it by vf-eval, and read its traces by `reasonloop import-rollouts`"
        raise ValueError(f"{of} needs {', '.join(needs)}{'' if is_played else remedy}")


def _tasks(of: str, split: str, seed: int, wanted: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Tasks in an order by seed: the first ones for the test, the others for training, none to bootstrap."""
    found = _task_set(of)
    tests, count = wanted["test"], wanted["test"] + wanted.get("train", 0)
    tasks = [*(itertools.islice(found, count) if found.INFINITE else found)]
    random.Random(seed).shuffle(tasks)  # noqa: S311 - reproducible
    share = min(tests, round(len(tasks) * tests / count))
    for task in {"test": tasks[:share], "train": tasks[share:]}.get(split, []):
        _refuse(of, task)
        data = task.data.model_dump(mode="json", exclude_none=True)
        messages = _messages(of, data)
        entry = {"data": data, "nodes": [{"message": one} for one in messages]}
        answer = {"of": of, "entry": json.dumps(entry)}
        yield {"kind": "verifiers", "id": task.key, "messages": messages, "answer": answer}


def _messages(of: str, data: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    system, prompt = data.get("system_prompt"), data.get("prompt") or []
    found = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if not found or not all(isinstance(one["content"], str) for one in found):
        raise ValueError(f"{of}: a task without a prompt of texts")
    return [{"role": "system", "content": system}, *found] if system else found


async def score(gold: Mapping[str, str], text: str) -> float | None:
    """Its weighted rewards, as a share of the weights above 0; below 0 it is 0. None: no reward scored the text."""
    verifiers, found = importlib.import_module("verifiers.v1"), _task_set(gold["of"])
    kind, row = type(found).task_type(), json.loads(gold["entry"])
    task = kind(kind.data_type().model_validate(row["data"]), found.config.task)
    _refuse(gold["of"], task, is_played=True)
    said = [*row["nodes"], {"message": {"role": "assistant", "content": text}, "sampled": True}]
    parents = [None, *range(len(said) - 1)]
    trace = verifiers.Trace(
        verifiers=verifiers.VersionInfo(version=""),  # the default asks git
        task=verifiers.TraceTask(type=kind.__name__, data=task.data, key=task.key, hash=task.hash),
        agent=verifiers.AgentInfo(config=verifiers.AgentConfig()),
        nodes=[
            verifiers.MessageNode(parent=p, **one) for p, one in zip(parents, said, strict=True)
        ],
        is_completed=True,
        ok=True,
    )
    await task.score(trace)
    best = sum(max(0.0, one.weight) for one in trace.rewards.values() if one is not None)
    return max(0.0, trace.reward / best) if best else None
