"""The folder of the import packages; params.yaml, profiles and constraint files are next to them."""

import pathlib

REPOSITORY = pathlib.Path(__file__).parents[1]
