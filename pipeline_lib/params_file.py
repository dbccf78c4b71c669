"""Strict reading of params.yaml, a profile over it, and overrides over both; setting of one key."""

import io
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.nodes import MappingNode, Node

from pipeline_lib import defaults
from pipeline_lib.engines.known.table import check_engine
from pipeline_lib.errors import BadInputError, reason_of, suggestion
from pipeline_lib.kinds.own import OWN
from pipeline_lib.kinds.table import find_kind
from pipeline_lib.own.code import (
    REWARDS,
    TASKS,
    VERIFIERS,
    code_of,
    find_function,
    find_source,
    names_of,
)
from pipeline_lib.own.task_sets import is_task_set
from pipeline_lib.params.paths import PrepareParams
from pipeline_lib.params.train import ONLINE, RewardParams
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.loading import check_data_set, full_name, is_data_set
from pipeline_lib.problems.own_task import PROBLEMS, PROMPTS, THREADS, VERIFY
from pipeline_lib.store.files import digest_json, write_text
from pipeline_lib.terminal_text import one_line
from pipeline_lib.train.advantages.rules import find_rule

RENAMED: Mapping[str, str] = {
    "adaptive": "apr",
    "classmate.bonus=blind": "classmate.bonus=hashed",
    "compute.step": "test_time.step_delimiter",
    "compute": "test_time",
    "evaluate.level": "evaluate.confidence_level",
    "latent": "prr",
    "prepare.folder": "prepare.source",
}
"""Former dotted keys, or values of keys, and their present names; a key of a renamed section is before the section."""

_SHOWN_CHARACTERS = 120
_Section = TypeVar("_Section", bound=BaseModel)


def load_params(
    path: pathlib.Path | None = None, *, profile: str | None = None, overrides: Sequence[str] = ()
) -> Params:
    """Read params.yaml, then a profile over it, then ``key.subkey=value`` overrides over both.

    Sections of a system may stand in pipelines/SYSTEM/params.yaml beside the file.

    Args:
        path: default: params.yaml of the current folder, else the one of the package.
        profile: a name, or a YAML file.
        overrides: as given to ``--set``.

    Raises:
        BadInputError: an unusable file, profile, key or value; the message names it in one line.
    """
    path = defaults.find_file(defaults.PARAMS) if path is None else path
    sources = [str(path)]
    try:
        values = _read_with_pipelines(path)
        if profile is not None:
            profile_path = _profile_path(profile)
            sources.append(str(profile_path))
            values = _merge(values, _read_yaml(profile_path))
        for assignment in overrides:
            sources.append(f"--set {_cut(assignment)}")
            values = _merge(values, _parse_override(assignment))
        # Strict JSON mode accepts a list for a tuple and a string for an enum, but neither true
        # nor "7" for a number.
        params = Params.model_validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        raise BadInputError(f"{', '.join(sources)}: {_first_problem(error)}") from error
    except (TypeError, ValueError, RecursionError) as error:
        # Keys that are no strings, numbers of thousands of digits, unbounded nesting.
        raise BadInputError(f"{', '.join(sources)}: {reason_of(error)}") from error
    try:
        _check_names(params)
        return _with_digests(_with_task(params, _DATA))
    except BadInputError as error:
        raise BadInputError(f"{', '.join(sources)}: {error}") from error


def on_task(params: Params, prepare: PrepareParams) -> Params:
    """The params on the task of ``prepare``, in place of one that they are for."""
    nothing: dict[str, object] = {"verifier": None, "answer": None, "of_task": False}
    verify = params.verify.model_copy(update=nothing if params.verify.of_task else {})
    changed = params.model_copy(update={"prepare": prepare, "verify": verify})
    return _with_digests(_with_task(changed, ["prepare"]))


def _check_names(params: Params) -> None:
    """Not in the models: `params` is below the tables of names in the import order."""
    for key in _DATA:
        check_data_set(attrgetter(key)(params))
    for one in params.evaluate.sets:
        check_data_set(one, generated=())
    for data in (params.prepare, params.classmate.prepare, *params.evaluate.sets):
        if data.kind is not None:
            find_kind(data.kind, where=data.dataset)
    for train in (params.train, params.pacore.train, params.classmate.train):
        if train.advantage is not None:
            find_rule(train.advantage)
    check_engine(params.serve)


def _with_task(params: Params, keys: Sequence[str]) -> Params:
    """With what the task of the sections ``keys`` says, where the params say nothing."""
    datasets = {key: full_name(attrgetter(key)(params)) for key in keys}
    own = [name for name in dict.fromkeys(datasets.values()) if not is_data_set(name)]
    if not own:
        return params
    if len(own) > 1:
        raise BadInputError(f"{' and '.join(own)} are two tasks; give one, as --task does")
    [task] = own
    there = names_of(find_source(task, key="prepare.dataset", group=TASKS))
    verifier, answer, reward, threads, prompt = (
        next((f"{task}:{one}" for one in names if one in there), None)
        for names in ((VERIFY,), ("answer",), ("reward",), (THREADS,), PROMPTS)
    )
    given: dict[str, object] = {
        **{f"{key}.prompt": prompt for key, dataset in datasets.items() if dataset == task},
        "verify.of_task": verifier is not None and params.verify.verifier is None,
        "verify.verifier": verifier,
        "verify.answer": answer,
        "apr.rl.grammar": threads,
        "pacore.kind": OWN.name if verifier else None,
    }
    for key in ("train", "pacore.train"):
        if reward and attrgetter(key)(params).method in ONLINE:
            given[f"{key}.rewards"] = (RewardParams(name="reward", function=reward),)
    for key, value in given.items():
        if value and (not attrgetter(key)(params) or key == "pacore.kind"):
            params = _replaced(params, key, value)
    return params


def _with_digests(params: Params) -> Params:
    """With digests of the user's code, which stages are keyed by."""
    asked = (params.prepare, params.classmate.prepare, *params.evaluate.sets)
    sets = [full_name(one) for one in asked if is_task_set(one.dataset)]
    for key, (group, names) in _CODES.items():
        section = attrgetter(key)(params)
        named = {name: getattr(section, name, None) for name in names}
        named |= {one.name: one.function for one in getattr(section, "rewards", ())}
        if key in _DATA and not is_data_set(section.dataset):
            named["dataset"] = f"{full_name(section)}:{PROBLEMS}"
        if key == "verify" and sets:
            named["task sets"] = f"{sets[0]}:{PROBLEMS}"
        codes = {
            name: code_of(find_function(text, key=f"{key}.{name}", group=group))
            for name, text in named.items()
            if text is not None and not ("{" in text and name == "prompt")
        }
        params = _replaced(params, f"{key}.code_digest", digest_json(codes) if codes else None)
    return params


_DATA = ("prepare", "classmate.prepare")
"""Sections that may name a task."""
_CODES: Mapping[str, tuple[str, Sequence[str]]] = {
    "prepare": (TASKS, ["prompt"]),
    "classmate.prepare": (TASKS, ["prompt"]),
    "verify": (VERIFIERS, ["verifier", "answer"]),
    "apr.rl": (TASKS, ["rollout", "grammar"]),
    "train": (REWARDS, []),
    "pacore.train": (REWARDS, []),
}
"""Sections with names of functions: their entry points, and the keys besides rewards."""


def _replaced(section: _Section, key: str, value: object) -> _Section:
    """A copy with another value of a dotted key."""
    name, _, below = key.partition(".")
    inner = _replaced(getattr(section, name), below, value) if below else value
    return section.model_copy(update={name: inner})


def set_param(path: pathlib.Path, dotted_key: str, value: str) -> None:
    """Replace the value of a key in a params file; the rest of its text, comments included, stays.

    Raises:
        BadInputError: the file cannot be read, or does not have the key.
    """
    _read_yaml(path)  # refuses what cannot be edited
    text = path.read_text("utf-8")
    node: Node = _yaml().compose(text)
    behind_key = 0
    for name in dotted_key.split("."):
        pairs = node.value if isinstance(node, MappingNode) else []
        found = next(((key, below) for key, below in pairs if key.value == name), None)
        if found is None:
            raise BadInputError(
                f"{path}: has no key {dotted_key!r}; add it with the value {value!r}"
            )
        behind_key, node = text.index(":", found[0].end_mark.index) + 1, found[1]
    start, end = node.start_mark.index, node.end_mark.index
    if start == end:  # without a value the parser names the place of the next key
        start = end = behind_key
    before, after = text[:start], text[end:]
    writer, written = _yaml(), io.StringIO()
    writer.default_flow_style, writer.width = True, len(value) + 80
    writer.dump([value], written)
    space = "" if before.endswith(" ") else " "
    write_text(path, f"{before}{space}{written.getvalue().strip()[1:-1]}{after}")


def _cut(text: str) -> str:
    return one_line(text, most=_SHOWN_CHARACTERS)


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    key = _cut(".".join(str(part) for part in first["loc"])) or "(top level)"
    if first["type"] == "extra_forbidden":
        return (
            f"unknown key {key!r}{_known_like(key) or ';'} see params.yaml for the keys there are"
        )
    message = first["msg"].removeprefix("Value error, ")
    shown = "" if isinstance(first["input"], dict) else f" (got {_cut(repr(first['input']))})"
    return f"{key}: {message}{shown}"


def _known_like(key: str) -> str:
    """A suggestion for an unknown dotted key: the same name in another section, or a similar key."""
    known = list(_keys(Params, ""))
    section, dot, name = key.rpartition(".")
    elsewhere = [one for one in known if one.endswith(f".{name}")]
    if len(elsewhere) == 1:
        return f"; did you mean {elsewhere[0]!r}?"
    beside = [one.rpartition(".")[2] for one in known if one.rpartition(".")[0] == section]
    return suggestion(name, beside, prefix=section + dot)


def _keys(section: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in section.model_fields.items():
        yield f"{prefix}{name}"
        below = field.annotation
        if isinstance(below, type) and issubclass(below, BaseModel):
            yield from _keys(below, f"{prefix}{name}.")


def _read_yaml(path: pathlib.Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise BadInputError(
            f"{path}: cannot be read ({error.strerror}); pass --params FILE"
        ) from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from error
    sections = _parse_yaml(text, where=str(path))
    if sections is None:
        return {}
    if not isinstance(sections, dict):
        raise BadInputError(f"{path}: expected sections, got {type(sections).__name__}")
    _refuse_renamed(sections, where=str(path))
    return sections


def _read_with_pipelines(path: pathlib.Path) -> dict[str, Any]:
    """The sections of ``path`` and of the params files of the pipelines beside it."""
    values = _read_yaml(path)
    for file in sorted(path.parent.glob(defaults.PIPELINE_PARAMS)):
        sections = _read_yaml(file)
        # DVC watches a section in one file.
        if twice := sections.keys() & values.keys():
            raise BadInputError(f"section {min(twice)!r} is in {file}, too; keep one of them")
        values |= sections
    return values


def _yaml() -> YAML:
    """YAML 1.2, as DVC reads the file: 1e-4 is a number, a key stands once. No object is constructed."""
    return YAML(typ="safe", pure=True)


def _parse_yaml(text: str, *, where: str) -> Any:
    try:
        return _yaml().load(text)
    except DuplicateKeyError as error:
        line = error.problem_mark.line + 1
        raise BadInputError(f"{where}: line {line}: {error.problem}") from error
    except Exception as error:  # also of !!bool 7, 2020-99-99 or ten thousand digits
        raise BadInputError(f"{where}: not YAML that has a value ({reason_of(error)})") from error


def _profile_path(profile: str) -> pathlib.Path:
    as_file = pathlib.Path(profile)
    if as_file.suffix in {".yaml", ".yml"}:
        return as_file
    known = defaults.find_profiles()
    if profile not in known:
        raise BadInputError(
            f"--profile {_cut(profile)}: no such profile{suggestion(profile, known) or ';'} "
            f"there are {', '.join(sorted(known))}"
        )
    return known[profile]


def _parse_override(override: str) -> dict[str, Any]:
    key, separator, text = override.partition("=")
    if not separator or not key:
        raise BadInputError(f"--set {_cut(override)}: expected KEY=VALUE, as in train.lr=1e-4")
    value = _parse_yaml(text, where=f"--set {_cut(override)}")
    for part in reversed(key.split(".")):
        value = {part: value}
    _refuse_renamed(value, where=f"--set {_cut(override)}")
    result: dict[str, Any] = value
    return result


def _refuse_renamed(values: Mapping[str, Any], *, where: str) -> None:
    for former, present in RENAMED.items():
        if _has_key(values, former):
            raise BadInputError(f"{where}: the key {former!r} is now {present!r}; rename it")


def _has_key(values: Any, dotted_key: str) -> bool:
    """True if ``values`` have the key, with the value behind its ``=``, if there is one."""
    dotted_key, _, value = dotted_key.partition("=")
    for name in dotted_key.split("."):
        if not isinstance(values, Mapping) or name not in values:
            return False
        values = values[name]
    return not value or values == value


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        result[key] = _merge(below, value) if both else value  # type: ignore[arg-type]
    return result
