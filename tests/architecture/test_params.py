"""params.yaml, its models and the code that reads them agree."""

import functools
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib import defaults
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import MathLimits, PrepareParams
from pipeline_lib.params.sections import Section
from pipeline_lib.params.train import LoraParams, TrainParams
from pipeline_lib.params.whole import Params
from pipeline_lib.params_file import load_params
from pipeline_lib.problems.loading import GENERATED
from pipeline_lib.problems.splits import make_splits
from pipeline_lib.verify.golds import open_gold_check
from tests.architecture.param_reads import reads_of


def section_fields(model: BaseModel, prefix: str = "") -> dict[str, set[tuple[str, str]]]:
    """Dotted key of every leaf, with its class and the bases down to the one that declares it, each with its name."""
    found: dict[str, set[tuple[str, str]]] = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        bases = type(model).__mro__
        owner = next(place for place, one in enumerate(bases) if name in one.__annotations__)
        if isinstance(value, BaseModel):
            found |= section_fields(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = {(one.__name__, name) for one in bases[: owner + 1]}
    return found


def product_sources() -> dict[pathlib.Path, str]:
    return {
        path: path.read_text("utf-8")
        for package in ("flows", "tasks", "pipeline_lib")
        for path in (REPOSITORY / package).rglob("*.py")
    }


@functools.cache
def product_reads() -> set[tuple[str, str]]:
    """Reads outside the params package, and those of the math worker's limits, which are JSON."""
    sources = product_sources()
    params = {path for path in sources if path.parent.name == "params"}
    reads = reads_of(
        [sources[path] for path in params],
        [source for path, source in sources.items() if path not in params],
    )
    limits = re.findall(r'\blimits\["(\w+)"\]', "".join(sources.values()))
    return reads | {(MathLimits.__name__, name) for name in limits}


def unused_keys(params: Params) -> list[str]:
    reads = product_reads()
    return [key for key, fields in section_fields(params).items() if reads.isdisjoint(fields)]


_WITH_CODE = ("prepare", "verify", "train", "pacore.train", "apr.rl", "classmate.prepare")
FILLED = {*(f"{one}.code_digest" for one in (*_WITH_CODE, "classmate.train")), "verify.of_task"}
"""What the reader of params fills in, mostly for the keys of stages."""


def test_every_param_is_used():
    """Every dotted key is read by code outside the models of the params."""
    assert {*unused_keys(Params())} <= FILLED


def test_unused_key_is_found_whatever_its_last_name():
    """`planted.steps` is unused though `train.steps` is used; `train.planted` and `lora.lr` likewise."""

    class PlantedParams(Section):
        steps: int = 1

    class PlantedLora(LoraParams):
        lr: float = 1.0

    class PlantedTrain(TrainParams):
        planted: int = 1
        lora: PlantedLora = PlantedLora()

    class WithPlanted(Params):
        planted: PlantedParams = PlantedParams()
        train: PlantedTrain = PlantedTrain()

    planted = {"planted.steps", "train.planted", "train.lora.lr"}
    assert planted <= set(unused_keys(WithPlanted()))


@pytest.mark.parametrize(
    "work",
    [
        "def work(run: Run): return run.params.train.lr",
        "def work(run: 'Run | None'): params, seed = run.params, 7; return params.train.lr",
        "def work(runs: list[Run]): return [train.lr for train in (r.params.train for r in runs)]",
        "def work(): return replace(make(), seed=1).train.lr",
        "def work(run: Run): return run.trained(3).lr",
        "def work(run: Run):\n  with opened(run.params.train) as t:\n    return t.lr",
        "class Work:\n  def __init__(self, run: Run): self.x = run.params\n  def f(self): self.x.train.lr",
    ],
)
def test_reads_are_resolved(work):
    """By arguments, tuples, comprehensions, calls, methods, contexts and attributes of self."""
    models = (
        "class Train:\n  lr: float\n  steps: int\n"
        "class Params:\n  train: Train\n"
        "class Run:\n  params: Params\n  def trained(self, n: int) -> Train: ...\n"
        "def make() -> Params: ..."
    )
    reads = reads_of([models], [work])
    assert ("Train", "lr") in reads
    assert ("Train", "steps") not in reads


def test_functions_have_names_of_their_own():
    """`params` of one function is not `params` of the next."""
    models = "class Train:\n  lr: float\nclass Sample:\n  lr: float"
    work = "def a(params: Train): return params.lr\ndef b(params: Sample): return params"
    assert reads_of([models], [work]) == {("Train", "lr")}


def test_params_file_names_every_key():
    """The params files list all keys, but those that are in another section with the same value."""
    files = [REPOSITORY / defaults.PARAMS, *REPOSITORY.glob(defaults.PIPELINE_PARAMS)]
    written = {}
    for file in files:
        written |= yaml.safe_load(file.read_text("utf-8"))
    known = Params().model_dump()

    def keys(tree: dict[str, object], prefix: str = "") -> set[str]:
        return {
            key
            for name, value in tree.items()
            for key in (
                keys(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name}
            )
        }

    differing = ("pacore.train", "classmate.prepare", "classmate.bootstrap", "classmate.train")
    unwritten = keys(known) - keys(written) - {*FILLED}
    assert keys(written) <= keys(known)
    assert all(key.startswith(differing) for key in unwritten)
    assert {key.partition(".")[2] for key in unwritten} <= keys(written)


def test_params_file_holds_the_defaults():
    """Values in params.yaml are the defaults of the models."""
    assert load_params() == Params()


@pytest.mark.parametrize(
    "profile", sorted(path.stem for path in (defaults.FOLDER / defaults.PROFILES).glob("*.yaml"))
)
def test_profiles_load(profile):
    """Every profile is valid over the params file."""
    assert load_params(profile=profile) != load_params()


def generated_problems() -> Iterator[Any]:
    """The distinct settings of generated problems, named by the first profile and section that has them."""
    names = [
        None,
        *sorted(path.stem for path in (defaults.FOLDER / defaults.PROFILES).glob("*.yaml")),
    ]
    found: dict[str, tuple[PrepareParams, str]] = {}
    for name in names:
        params = load_params(profile=name)
        for section, prepare in (("loop", params.prepare), ("classmate", params.classmate.prepare)):
            if prepare.dataset in GENERATED:
                named = (prepare, f"{name or 'default'} {section}")
                found.setdefault(prepare.model_dump_json(), named)
    for prepare, name in found.values():
        marks = [pytest.mark.slow] if prepare.train_problems > 4000 else []
        yield pytest.param(prepare, id=name, marks=marks)


@pytest.mark.parametrize("prepare", list(generated_problems()))
def test_generated_problems_suffice(prepare):
    """The ranges of the params file and of every profile hold as many distinct problems as it wants."""
    with open_gold_check() as gold_problem:
        found = make_splits(prepare, seed=7, gold_problem=gold_problem)
    assert found.report.drawn == found.report.wanted


PIPELINE_FILES = [
    str(path.relative_to(REPOSITORY)) for path in REPOSITORY.glob(defaults.PIPELINE_PARAMS)
]


def test_pipeline_params_are_read_beside_the_file(tmp_path):
    """A section in both files is refused: DVC would watch one of them."""
    params, beside = tmp_path / defaults.PARAMS, tmp_path / "pipelines" / "apr" / defaults.PARAMS
    beside.parent.mkdir(parents=True)
    beside.write_text("apr: {rl: {prompts: 5}}")
    params.write_text("seed: 8")
    read = load_params(params)
    assert (read.seed, read.apr.rl.prompts) == (8, 5)
    params.write_text("apr: {rl: {steps: 4}}")
    with pytest.raises(BadInputError, match=r"section 'apr' is in .*; keep one of them"):
        load_params(params)


@pytest.mark.parametrize("name", [defaults.PARAMS, defaults.PREFECT, *sorted(PIPELINE_FILES)])
def test_files_of_a_clone_are_those_of_the_package(name):
    """Copy a changed file of pipeline_lib/defaults to the root."""
    assert (REPOSITORY / name).read_bytes() == (defaults.FOLDER / name).read_bytes()
