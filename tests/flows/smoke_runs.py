"""Settings of the smoke runs of APR, PaCoRe and Classmate, which journeys and golden records share."""

import pathlib

THREADS = ("--runner", "thread", "--set", "evaluate.resamples=200")
APR = ("--profile", "smoke", *THREADS, "--set", "apr.sft.precision=float32")
"""Float32, since products in bfloat16 differ between processors."""
_PEERS = (
    "[{name: small, hidden_size: 96, num_layers: 2, num_heads: 4, steps: 120},"
    " {name: other, held_out: true, tokenizer: digits, hidden_size: 32, num_layers: 1, num_heads: 2, steps: 40}]"
)
CLASSMATE = (
    *("--profile", "classmate-smoke", "--set", "evaluate.resamples=200"),
    *("--set", "classmate.bootstrap.steps=150"),
    *("--set", f"classmate.made_peers={_PEERS}"),
)


def pacore(source: pathlib.Path) -> tuple[str, ...]:
    """Settings of a run on the policy of the finished run in ``source``."""
    return ("--profile", "smoke", *THREADS, "--set", f"pacore.source={source}")
