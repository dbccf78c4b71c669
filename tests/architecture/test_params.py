"""params.yaml, the models that read it and the code that uses them say the same."""

import ast

import pytest
import yaml
from pydantic import BaseModel

from pipeline_lib.params.whole import Params
from pipeline_lib.params_file import PARAMS_FILE, PROFILES_FOLDER, load_params
from pipeline_lib.repository import REPOSITORY


def leaves(model: BaseModel, prefix: str = "") -> dict[str, object]:
    """Dotted key and value of every leaf of the models."""
    found: dict[str, object] = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            found |= leaves(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def attributes_used() -> set[str]:
    """Every attribute or string key that is read anywhere in the product, except in the params themselves."""
    used: set[str] = set()
    for package in ("flows", "tasks", "pipeline_lib"):
        for path in (REPOSITORY / package).rglob("*.py"):
            if path.parent.name != "params":
                tree = ast.parse(path.read_text("utf-8"))
                used |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
                # Limits cross into other processes as JSON.
                used |= {
                    n.slice.value
                    for n in ast.walk(tree)
                    if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Constant)
                }
    return used


def test_every_param_is_used():
    """A key that no code reads would be a promise that is not kept."""
    used = attributes_used()
    unused = [key for key in leaves(Params()) if key.split(".")[-1] not in used]
    assert unused == []


def test_params_file_names_every_key():
    """params.yaml is the list of all keys: a newcomer sees what can be set."""
    written = yaml.safe_load(PARAMS_FILE.read_text("utf-8"))
    known = Params().model_dump()

    def keys(tree: dict[str, object], prefix: str = "") -> set[str]:
        return {
            key
            for name, value in tree.items()
            for key in (
                keys(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name}
            )
        }

    assert keys(written) == keys(known)


def test_params_file_holds_the_defaults():
    """A value in params.yaml is the model's own default, so the two never tell different stories."""
    assert load_params() == Params()


@pytest.mark.parametrize("profile", sorted(path.stem for path in PROFILES_FOLDER.glob("*.yaml")))
def test_profiles_load(profile):
    """Every profile that ships is valid over the params file."""
    assert load_params(profile=profile) != load_params()
