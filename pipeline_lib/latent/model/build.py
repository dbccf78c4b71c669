"""From params to a model: the one place that knows which kinds there are."""

from pipeline_lib.latent.model.protocol import Sizes
from pipeline_lib.latent.model.prr import PrrModel
from pipeline_lib.latent.model.trm import TrmModel
from pipeline_lib.params.latent import LatentLossParams, LatentModelParams


def build_model(
    params: LatentModelParams, sizes: Sizes, *, loss: LatentLossParams
) -> PrrModel | TrmModel:
    """A model with fresh weights, drawn from torch's own generator. TRM brings its own loss."""
    if params.kind == "trm":
        return TrmModel(params, sizes)
    return PrrModel(params, sizes, loss=loss)
