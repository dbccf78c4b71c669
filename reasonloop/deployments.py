"""Entry points of the deployments in prefect.yaml: flows by import path."""

import os
import sys

# Prefect imports this with the current folder first, which may have packages of the same names.
if sys.path[0] == os.getcwd():  # noqa: PTH109 - Prefect removes this text
    sys.path.append(sys.path.pop(0))

from flows.platform.deployments import evaluate, post_training
from flows.promote import promote
from flows.reproduce import reproduce

__all__ = ["evaluate", "post_training", "promote", "reproduce"]
