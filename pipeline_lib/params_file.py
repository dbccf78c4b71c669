"""params.yaml, a profile over it, and overrides over both: strict, and bad input in one line."""

import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from pydantic import ValidationError
from typing_extensions import override

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params

REPOSITORY = pathlib.Path(__file__).parents[1]
PARAMS_FILE = REPOSITORY / "params.yaml"
PROFILES_FOLDER = REPOSITORY / "profiles"


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping, where plain YAML keeps the last one."""

    @override
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            line = node.start_mark.line + 1
            raise BadInputError(f"duplicate key {min(twice)!r} in the mapping at line {line}")
        return super().construct_mapping(node, deep=deep)


# The floats of YAML 1.1 need a dot, so that 1e-4 would be a text.
_UniqueKeyLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789")
)


def load_params(
    path: pathlib.Path = PARAMS_FILE, *, profile: str | None = None, overrides: Sequence[str] = ()
) -> Params:
    """Read params.yaml, then a profile over it, then ``key.subkey=value`` overrides over both.

    Raises:
        BadInputError: the file, the profile, a key or a value cannot be used; one line says which.
    """
    values = _read_yaml(path)
    sources = [str(path)]
    if profile is not None:
        profile_path = _profile_path(profile)
        values = _merged(values, _read_yaml(profile_path))
        sources.append(str(profile_path))
    for assignment in overrides:
        values = _merged(values, _parsed_override(assignment))
        sources.append(f"--set {assignment}")
    try:
        # By way of JSON, strict still takes a list for a tuple and a text for an enum, but neither
        # true nor "7" for a number.
        return Params.model_validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        raise BadInputError(f"{', '.join(sources)}: {_first_problem(error)}") from error


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"]) or "(top level)"
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}; see params.yaml for the keys there are"
    message = first["msg"].removeprefix("Value error, ")
    shown = "" if isinstance(first["input"], dict) else f" (got {first['input']!r})"
    return f"{key}: {message}{shown}"


def _read_yaml(path: pathlib.Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInputError(
            f"{path}: cannot be read ({error.strerror}); pass --params FILE"
        ) from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from error
    content = _parsed_yaml(text, where=str(path))
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise BadInputError(f"{path}: expected sections, got {type(content).__name__}")
    return content


def _parsed_yaml(text: str, *, where: str) -> Any:
    try:
        # A SafeLoader subclass: no object is ever constructed.
        return yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506
    except BadInputError as error:
        raise BadInputError(f"{where}: {error}") from error
    except yaml.YAMLError as error:
        raise BadInputError(f"{where}: not YAML ({' '.join(str(error).split())})") from error


def _profile_path(profile: str) -> pathlib.Path:
    as_file = pathlib.Path(profile)
    if as_file.suffix in {".yaml", ".yml"}:
        return as_file
    known = sorted(found.stem for found in PROFILES_FOLDER.glob("*.yaml"))
    if profile not in known:
        raise BadInputError(f"--profile {profile}: no such profile; there are {', '.join(known)}")
    return PROFILES_FOLDER / f"{profile}.yaml"


def _parsed_override(override: str) -> dict[str, Any]:
    key, separator, text = override.partition("=")
    if not separator or not key:
        raise BadInputError(f"--set {override}: expected KEY=VALUE, as in train.lr=1e-4")
    value = _parsed_yaml(text, where=f"--set {override}")
    for part in reversed(key.split(".")):
        value = {part: value}
    result: dict[str, Any] = value
    return result


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        result[key] = _merged(below, value) if both else value  # type: ignore[arg-type]
    return result
