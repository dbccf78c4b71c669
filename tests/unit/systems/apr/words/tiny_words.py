"""Params of a tiny language model that learns questions in parts."""

from pipeline_lib.params.apr import AprDataParams, AprParams, AprSftParams, PartsParams

TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}<|assistant|>"
)
WINDOW = 900
SFT = AprSftParams(
    tokens=3000,
    step_tokens=1024,
    optimizer="adamw",
    lr=1e-3,
    precision="float32",
    conditioned=0.0,
    join_share=1.0,
)
DATA = AprDataParams(
    task="parts",
    parts=PartsParams(parts_high=3, steps_low=1, steps_high=2, wordings_problems=2),
    train_problems=6,
    valid_problems=1,
    test_problems=3,
    shard_size=3,
)


def params_of(base, **model):
    """Params that train ``base``; ``model`` are more of its section."""
    fields = {"base": str(base), "window": WINDOW, **model}
    return AprParams.model_validate({"model": fields, "sft": SFT})
