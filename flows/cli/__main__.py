"""``python -m flows.cli``, as dvc.yaml and torchrun call it."""

from flows.cli.app import command

command()
