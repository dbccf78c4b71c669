"""Entry points of the deployments in prefect.yaml: flows by import path."""

from flows.platform.deployments import evaluate, post_training
from flows.promote import promote
from flows.reproduce import reproduce

__all__ = ["evaluate", "post_training", "promote", "reproduce"]
