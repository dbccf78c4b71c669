"""Builds a latent model from its params."""

from pipeline_lib.latent.model.protocol import Sizes
from pipeline_lib.latent.model.prr import PrrModel
from pipeline_lib.latent.model.trm import TrmModel
from pipeline_lib.params.latent import LatentLossParams, LatentModelParams


def build_model(
    params: LatentModelParams, sizes: Sizes, *, loss: LatentLossParams
) -> PrrModel | TrmModel:
    """A model with weights from torch's default generator. TRM ignores ``loss``."""
    if params.kind == "trm":
        return TrmModel(params, sizes)
    return PrrModel(params, sizes, loss=loss)
