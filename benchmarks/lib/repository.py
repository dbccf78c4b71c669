"""The folder of this checkout."""

import pathlib

REPOSITORY = pathlib.Path(__file__).parents[2]
