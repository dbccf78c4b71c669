"""Rewards of one's own for threads: our rollouts, where a right answer pays less the more is drawn.

reasonloop apr rl MODEL --data DATA --output OUT --set apr.rl.rollout=examples.apr_rollouts:draw
"""

from functools import partial
from typing import Any

from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.systems.apr.model_record import ThreadModelRecord
from pipeline_lib.systems.apr.tasks import task_of
from pipeline_lib.systems.apr.training_draws import ThreadDraws

RECORD = ThreadModelRecord(kind="parallel", style="parts", window=768, conditions=("",))


def draw(model: Any, prompts: list[str], *, problems: Any, **options: Any) -> list[dict[str, Any]]:
    """One row per prompt: sequences, whether the answer is right, and the reward."""
    threads = ThreadDraws(
        problems=problems, task_of=partial(task_of, RECORD, verify=VerifyParams())
    )
    rows = threads(model, prompts, **options)
    for row in rows:
        drawn = sum(len(one["output"]) for one in row["seqs"])
        row["reward"] = row["is_correct"] / (1 + drawn / 1000)
    return rows
