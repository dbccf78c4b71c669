"""Builds a latent model from its params."""

from pipeline_lib.params.prr import PrrLossParams, PrrModelParams
from pipeline_lib.systems.prr.model.protocol import Sizes
from pipeline_lib.systems.prr.model.prr import PrrModel
from pipeline_lib.systems.prr.model.trm import TrmModel


def build_model(
    params: PrrModelParams, sizes: Sizes, *, loss: PrrLossParams
) -> PrrModel | TrmModel:
    """A model with weights from torch's default generator. TRM ignores ``loss``."""
    if params.kind == "trm":
        return TrmModel(params, sizes)
    return PrrModel(params, sizes, loss=loss)
