"""From params to a model: the one place that knows which kinds there are."""

from pipeline_lib.latent.model import PrrModel
from pipeline_lib.latent.protocol import Sizes
from pipeline_lib.params import LatentLossParams, LatentModelParams


def build_model(params: LatentModelParams, sizes: Sizes, *, loss: LatentLossParams) -> PrrModel:
    """A model with fresh weights, drawn from torch's own generator."""
    return PrrModel(params, sizes, loss=loss)
