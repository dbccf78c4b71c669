"""params.yaml, profiles and prefect.yaml of the package; a file of the current folder comes first."""

import pathlib
from collections.abc import Mapping

FOLDER = pathlib.Path(__file__).parent
CHECKOUT = FOLDER.parents[1]
"""The folder of the import packages: a clone, or site-packages."""
DVC_LOCK, CODE_LOCK = "dvc.lock", "stages.lock.yaml"
"""Files in git that DVC writes: what its stages were run with, and the digests of their code."""
PARAMS, PREFECT, PROFILES = "params.yaml", "prefect.yaml", "profiles"
AUTOMATIONS = "automations.yaml"
PIPELINE_PARAMS = f"pipelines/*/{PARAMS}"
"""Files with the sections of the systems besides the loop."""


def find_file(name: str) -> pathlib.Path:
    """The file ``name`` of the current folder, else the one of the package."""
    here = pathlib.Path(name)
    return here if here.exists() else FOLDER / name


def find_profiles() -> Mapping[str, pathlib.Path]:
    """Profiles of the package and of profiles/ in the current folder, by name; the latter come first."""
    places = (FOLDER / PROFILES, pathlib.Path(PROFILES))
    return {file.stem: file for place in places for file in sorted(place.glob("*.yaml"))}
