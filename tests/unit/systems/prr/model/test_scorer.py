"""The scorer: its inputs (latents, certainty, answer check) and its gradients."""

import math
from typing import Any

import pytest
import torch

from pipeline_lib.params.prr import PrrModelParams
from pipeline_lib.systems.prr.model.prr import Scorer
from tests.unit.systems.prr.small_models import SIZES

WIDTH = 8
POSITIONS = 2 + SIZES.seq_len


def make_scorer(**changes: Any) -> Scorer:
    """A scorer for three branches of width 8, two prefix and seven sequence positions."""
    small = {"width": WIDTH, "heads": 2, "hidden_multiple": 4, "prefix_tokens": 2}
    return Scorer(PrrModelParams(**(small | changes)), SIZES)


def drawn(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


LATENTS_BKSD = drawn(2, 3, POSITIONS, WIDTH)
LOGITS_BKLV = drawn(2, 3, SIZES.seq_len, SIZES.vocab_size, seed=2)
EMBEDDED_BSD = drawn(2, POSITIONS, WIDTH, seed=3)


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("certainty", [True, False])
@pytest.mark.parametrize("reads", ["all", "first"])
def test_initial_scores_are_the_bias(reads, certainty, checks):
    """Output layers are zero-initialised, so every score is the bias of -5."""
    scorer = make_scorer(scorer_reads=reads, scorer_certainty=certainty, scorer_checks=checks)
    assert scorer(LATENTS_BKSD, LOGITS_BKLV, EMBEDDED_BSD).tolist() == [[-5.0] * 3] * 2


def test_certainty_features():
    """Tokens of probability 1/2 and 2/3: ln 1/3 in all, and ln 1/2 for the least sure one."""
    scorer = make_scorer()
    torch.nn.init.constant_(scorer.certainty.weight, 1.0)
    # Stablemax weights of the logits 1, 0 and -1e9 are 2, 1 and 0.
    logits_BKLV = torch.tensor([[[[1.0, 0, 0], [1.0, 0, -1e9]]]])
    [[score]] = scorer(LATENTS_BKSD[:1, :1], logits_BKLV, EMBEDDED_BSD[:1]).tolist()
    assert score == pytest.approx(-5 + math.log(1 / 3) + math.log(1 / 2), abs=1e-6)


def test_scores_pass_no_gradient_to_the_logits():
    """Certainty and check change the scores; the logits get no gradient."""
    scorer = make_scorer(scorer_checks=True)
    torch.nn.init.normal_(scorer.certainty.weight)
    torch.nn.init.normal_(scorer.check.out.weight)
    logits_BKLV = LOGITS_BKLV.clone().requires_grad_()
    scorer(LATENTS_BKSD, logits_BKLV, EMBEDDED_BSD).sum().backward()
    assert logits_BKLV.grad is None
    assert scorer.certainty.weight.grad.abs().sum() > 0
    assert all(weight.grad.abs().sum() > 0 for weight in scorer.check.parameters())


@pytest.mark.parametrize(("reads", "read"), [("all", range(POSITIONS)), ("first", [0])])
def test_positions_that_the_scorer_reads(reads, read):
    """Scores depend on the latents of exactly these positions."""
    scorer = make_scorer(scorer_reads=reads)
    torch.nn.init.normal_(scorer.out.weight)
    latents_BKSD = LATENTS_BKSD.clone().requires_grad_()
    scores_BK = scorer(latents_BKSD, LOGITS_BKLV, EMBEDDED_BSD)
    [grad_BKSD] = torch.autograd.grad(scores_BK.sum(), latents_BKSD)
    moved_S = grad_BKSD.abs().sum((0, 1, 3)) > 0
    assert moved_S.nonzero().flatten().tolist() == list(read)


def test_a_scorer_of_equal_positions_reads_one():
    """With equal positions, reading all and reading the first agree."""
    first, whole = (make_scorer(scorer_reads=reads) for reads in ("first", "all"))
    torch.nn.init.normal_(first.out.weight)
    whole.load_state_dict(first.state_dict())
    alike_BKSD = LATENTS_BKSD[:, :, :1].expand_as(LATENTS_BKSD)
    torch.testing.assert_close(
        whole(alike_BKSD, LOGITS_BKLV, EMBEDDED_BSD), first(alike_BKSD, LOGITS_BKLV, EMBEDDED_BSD)
    )


def checked(logits_BKLV: torch.Tensor, embedded_BSD: torch.Tensor) -> torch.Tensor:
    """Scores by a randomly initialised check alone, with zero weight on certainty."""
    torch.manual_seed(4)
    scorer = make_scorer(scorer_checks=True)
    torch.nn.init.normal_(scorer.check.out.weight)
    torch.nn.init.zeros_(scorer.check.sure.weight)
    return scorer(LATENTS_BKSD, logits_BKLV, embedded_BSD)


def test_the_check_reads_answer_and_question():
    """Another token changes the score of its branch only; another question those of its row."""
    before_BK = checked(LOGITS_BKLV, EMBEDDED_BSD)
    logits_BKLV = LOGITS_BKLV.clone()
    logits_BKLV[1, 2, 3] = LOGITS_BKLV[1, 2, 3].flip(-1)
    moved_BK = checked(logits_BKLV, EMBEDDED_BSD) != before_BK
    assert moved_BK.tolist() == [[False] * 3, [False, False, True]]
    embedded_BSD = EMBEDDED_BSD.clone()
    embedded_BSD[0, 4] += 1
    assert (checked(LOGITS_BKLV, embedded_BSD) != before_BK).tolist() == [[True] * 3, [False] * 3]


def test_the_check_learns_a_rule_independent_of_certainty():
    """With equal certainty, it learns which answers repeat the question."""
    torch.manual_seed(5)
    tokens = torch.nn.Embedding(SIZES.vocab_size, WIDTH)
    right = []
    scorer = make_scorer(scorer_checks=True)
    optimizer = torch.optim.AdamW(scorer.parameters(), lr=1e-2)
    for _ in range(300):
        inputs_BL = torch.randint(SIZES.vocab_size, (32, SIZES.seq_len))
        other_BL = torch.randint(SIZES.vocab_size, (32, SIZES.seq_len))
        repeats_B = torch.arange(32) % 2 == 0
        answers_BL = torch.where(repeats_B[:, None], inputs_BL, other_BL)
        logits_BKLV = torch.nn.functional.one_hot(answers_BL, SIZES.vocab_size).float()[:, None]
        embedded_BLD = tokens(inputs_BL).detach()
        embedded_BSD = torch.nn.functional.pad(embedded_BLD, (0, 0, 2, 0))
        latents_BKSD = torch.zeros(32, 1, POSITIONS, WIDTH)
        scores_B = scorer(latents_BKSD, logits_BKLV, embedded_BSD)[:, 0]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores_B, repeats_B.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right.append(((scores_B > 0) == repeats_B).float().mean())
    assert torch.stack(right[-20:]).mean() > 0.95
