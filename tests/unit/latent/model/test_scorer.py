"""The scorer: what it reads, what it is told, what it sees, and who learns from it."""

import math
from typing import Any

import pytest
import torch

from pipeline_lib.latent.model.scorer import Scorer
from pipeline_lib.params.latent import LatentModelParams
from tests.unit.latent.small_models import SIZES

WIDTH = 8
POSITIONS = 2 + SIZES.seq_len


def made_scorer(**changes: Any) -> Scorer:
    """For three branches of width 8 on two positions of prefix and seven of the sequence."""
    small = {"width": WIDTH, "heads": 2, "hidden_multiple": 4, "prefix_tokens": 2}
    return Scorer(LatentModelParams(**(small | changes)), SIZES)


def drawn(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


LATENTS_BKSD = drawn(2, 3, POSITIONS, WIDTH)
LOGITS_BKLV = drawn(2, 3, SIZES.seq_len, SIZES.vocab_size, seed=2)
EMBEDDED_BSD = drawn(2, POSITIONS, WIDTH, seed=3)


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("certainty", [True, False])
@pytest.mark.parametrize("reads", ["all", "first"])
def test_a_new_scorer_thinks_every_branch_wrong(reads, certainty, checks):
    """Its score is its bias of -5, whatever it reads, is told and sees."""
    scorer = made_scorer(scorer_reads=reads, scorer_certainty=certainty, scorer_checks=checks)
    assert scorer(LATENTS_BKSD, LOGITS_BKLV, EMBEDDED_BSD).tolist() == [[-5.0] * 3] * 2


def test_what_the_scorer_is_told_of_certainty():
    """Tokens of probability 1/2 and 2/3: ln 1/3 in all, and ln 1/2 for the least sure one."""
    scorer = made_scorer()
    torch.nn.init.constant_(scorer.certainty.weight, 1.0)
    # Stablemax weighs the logits 1, 0 and -1e9 as 2, 1 and nothing.
    logits_BKLV = torch.tensor([[[[1.0, 0, 0], [1.0, 0, -1e9]]]])
    [[score]] = scorer(LATENTS_BKSD[:1, :1], logits_BKLV, EMBEDDED_BSD[:1]).tolist()
    assert score == pytest.approx(-5 + math.log(1 / 3) + math.log(1 / 2), abs=1e-6)


def test_the_answer_does_not_learn_from_being_scored():
    """Scores move with the worth of certainty and of the check; the logits get no gradient."""
    scorer = made_scorer(scorer_checks=True)
    torch.nn.init.normal_(scorer.certainty.weight)
    torch.nn.init.normal_(scorer.check.out.weight)
    logits_BKLV = LOGITS_BKLV.clone().requires_grad_()
    scorer(LATENTS_BKSD, logits_BKLV, EMBEDDED_BSD).sum().backward()
    assert logits_BKLV.grad is None
    assert scorer.certainty.weight.grad.abs().sum() > 0
    assert all(weight.grad.abs().sum() > 0 for weight in scorer.check.parameters())


@pytest.mark.parametrize(("reads", "read"), [("all", range(POSITIONS)), ("first", [0])])
def test_positions_that_the_scorer_reads(reads, read):
    """Its score moves with the latents of these positions and of no other."""
    scorer = made_scorer(scorer_reads=reads)
    torch.nn.init.normal_(scorer.out.weight)
    latents_BKSD = LATENTS_BKSD.clone().requires_grad_()
    scores_BK = scorer(latents_BKSD, LOGITS_BKLV, EMBEDDED_BSD)
    [grad_BKSD] = torch.autograd.grad(scores_BK.sum(), latents_BKSD)
    moved_S = grad_BKSD.abs().sum((0, 1, 3)) > 0
    assert moved_S.nonzero().flatten().tolist() == list(read)


def test_a_scorer_of_equal_positions_reads_one():
    """Where all positions are alike both ways to read them are the same formula."""
    first, whole = (made_scorer(scorer_reads=reads) for reads in ("first", "all"))
    torch.nn.init.normal_(first.out.weight)
    whole.load_state_dict(first.state_dict())
    alike_BKSD = LATENTS_BKSD[:, :, :1].expand_as(LATENTS_BKSD)
    torch.testing.assert_close(
        whole(alike_BKSD, LOGITS_BKLV, EMBEDDED_BSD), first(alike_BKSD, LOGITS_BKLV, EMBEDDED_BSD)
    )


def checked(logits_BKLV: torch.Tensor, embedded_BSD: torch.Tensor) -> torch.Tensor:
    """Scores by the check alone, whose weights are drawn, and which hears nothing of certainty."""
    torch.manual_seed(4)
    scorer = made_scorer(scorer_checks=True)
    torch.nn.init.normal_(scorer.check.out.weight)
    torch.nn.init.zeros_(scorer.check.sure.weight)
    return scorer(LATENTS_BKSD, logits_BKLV, embedded_BSD)


def test_the_check_sees_the_answer_and_what_was_asked():
    """Another token moves the score of that branch alone; another question those of its row."""
    before_BK = checked(LOGITS_BKLV, EMBEDDED_BSD)
    logits_BKLV = LOGITS_BKLV.clone()
    logits_BKLV[1, 2, 3] = LOGITS_BKLV[1, 2, 3].flip(-1)
    moved_BK = checked(logits_BKLV, EMBEDDED_BSD) != before_BK
    assert moved_BK.tolist() == [[False] * 3, [False, False, True]]
    embedded_BSD = EMBEDDED_BSD.clone()
    embedded_BSD[0, 4] += 1
    assert (checked(LOGITS_BKLV, embedded_BSD) != before_BK).tolist() == [[True] * 3, [False] * 3]


def test_the_check_learns_a_rule_that_certainty_does_not_tell():
    """All answers are equally sure and half of them repeat the question: only a look tells which."""
    torch.manual_seed(5)
    tokens = torch.nn.Embedding(SIZES.vocab_size, WIDTH)
    right = []
    scorer = made_scorer(scorer_checks=True)
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
