"""How tasks are retried and bounded, by name. Every task is NO_CACHE: its library function decides.

Prefect's cache would hash only the decorated function, which is thin, so it would serve results of
an older library. Tasks are idempotent instead: what is done and verifies is not done again.
"""

from typing import Any, TypedDict

from prefect.cache_policies import NO_CACHE, CachePolicy

from pipeline_lib.errors import BadInputError, BudgetReachedError


class Policy(TypedDict):
    """Options of ``prefect.task`` that a policy fixes."""

    retries: int
    retry_delay_seconds: list[float]
    retry_condition_fn: Any
    timeout_seconds: int
    cache_policy: CachePolicy


def is_worth_a_retry(_task: Any, _run: Any, state: Any) -> bool:
    """Bad input stays bad, a used-up budget stays used up. All else may be a passing fault."""
    try:
        state.result()
    except (BadInputError, BudgetReachedError):
        return False
    except Exception:  # noqa: BLE001 - whatever it was, a retry is the answer
        return True
    return False


def _policy(*, retries: int, timeout_s: int) -> Policy:
    return Policy(
        retries=retries,
        retry_delay_seconds=[1.0, 10.0][:retries],
        retry_condition_fn=is_worth_a_retry,
        timeout_seconds=timeout_s,
        cache_policy=NO_CACHE,
    )


PLAN = _policy(retries=1, timeout_s=3600)
"""Work of one process that is no training: planning, preparing, building, comparing; minutes."""
SHARD = _policy(retries=2, timeout_s=2 * 3600)
"""One shard of sampling or verification; minutes."""
TRAINING = _policy(retries=1, timeout_s=48 * 3600)
"""A whole training run; a retry continues from its newest checkpoint that verifies."""
