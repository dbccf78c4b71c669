"""Next-token sampling against hand-worked probabilities."""

import pytest
import torch

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.embedded.sequence_table import sample_tokens


@pytest.mark.parametrize(("uniform", "expected"), [(0.0, 1), (0.49, 1), (0.51, 2), (0.999, 2)])
def test_top_p_keeps_the_smallest_set(uniform, expected):
    """Probabilities 0, .45, .45, .1 with top-p .5: the two likely tokens share the mass."""
    logits = torch.tensor([[0.0, 0.45, 0.45, 0.1]]).log()
    token = sample_tokens(logits, torch.tensor([uniform]), Decoding(top_p=0.5))
    assert token.item() == expected
