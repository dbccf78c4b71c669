"""Retry and timeout policies of tasks. No task uses Prefect's cache.

The cache would hash the decorated function alone, so it would return results of an older library.
Tasks are idempotent instead: the library reuses a finished result under the same key.
"""

from typing import Any, TypedDict

from prefect.cache_policies import NO_CACHE, CachePolicy

from pipeline_lib.errors import BadInputError, BudgetReachedError, GivenUpError


class Policy(TypedDict):
    """Options of ``prefect.task`` that a policy fixes."""

    retries: int
    retry_delay_seconds: list[float]
    retry_condition_fn: Any
    timeout_seconds: int
    cache_policy: CachePolicy


def is_worth_a_retry(_task: Any, _run: Any, state: Any) -> bool:
    """False for bad input, a used-up budget and what was attempted as often as allowed; others may be transient."""
    try:
        state.result()
    except (BadInputError, BudgetReachedError, GivenUpError):
        return False
    except Exception:  # noqa: BLE001 - any other failure is retried
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
"""Planning, preparing, building, comparing; minutes."""
SHARD = _policy(retries=2, timeout_s=2 * 3600)
"""One shard of sampling or verification; minutes."""
TRAINING = _policy(retries=1, timeout_s=48 * 3600)
"""A training; a retry resumes from the newest verified checkpoint."""
