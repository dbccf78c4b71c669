"""Entry points of the deployments in prefect.yaml: flows by import path."""

import pathlib
import sys

# Prefect imports this with the current folder first, which may have packages of the same names.
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from flows.platform.deployments import evaluate, post_training
from flows.promote import promote
from flows.reproduce import reproduce

del sys.path[0]

__all__ = ["evaluate", "post_training", "promote", "reproduce"]
