"""A student that learns from the paths of a larger teacher behind a server, beside its control and the teacher.

For each seed a teacher is made here: a Llama of more weights, trained on more worked solutions of the default problem,
none of which is in the seed's test split. Then ``reasonloop run`` with ``sample.server``: the teacher's verified paths
train the student by SFT, the control trains on worked solutions for as much processor time, the teacher's included, and
the untouched teacher is evaluated. Every part resumes; 11 minutes a seed on two cores:

    python -m benchmarks.teacher --folder /tmp/teacher --seeds 7,8,9
"""

import json
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

import httpx

from benchmarks.lib.command_line import make_parser
from benchmarks.lib.repository import REPOSITORY
from benchmarks.lib.seeds import mean_of, points
from benchmarks.methods import difference

PORT = 8430
URL = f"http://127.0.0.1:{PORT}/v1"
TEACHER = (
    "prepare.train_problems=4000",
    "prepare.bootstrap_problems=4000",
    "bootstrap.hidden_size=192",
    "bootstrap.num_layers=6",
    "bootstrap.steps=1000",
    "bootstrap.threads=2",
)
STUDENT = ("rounds=1", "prepare.train_problems=4000")


def main() -> None:
    """Make the teacher, then run the seeds and show them together."""
    parser = make_parser(__doc__)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", default="7,8,9")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    seeds = arguments.seeds.split(",")
    metrics = [run_seed(folder, seed) for seed in seeds]
    for arm, reference in (("policy", "control"), ("policy", "base"), ("policy", "teacher")):
        each = [difference(one, arm, reference, 1) for one in metrics]
        print(
            f"{arm} - {reference}: {points(mean_of(each))} over problems, by seed "
            f"{', '.join(points(one) for one in each)}"
        )


def run_seed(folder: pathlib.Path, seed: str) -> dict[str, Any]:
    """The metrics of a seed's run, with the teacher served meanwhile."""
    made, workspace = folder / f"teacher-{seed}", folder / f"run-{seed}"
    for stage in ("prepare", "bootstrap"):
        _reasonloop("stage", stage, "--workspace", made, *_sets((*TEACHER, f"seed={seed}")))
    model = made / "models" / "base"
    # Of the same architecture, so the cost of a token is about proportional to its weights.
    cost = _weights(model) / _student_weights(folder)
    print(f"seed {seed}: a token of the teacher costs {cost:.1f} of the student's", flush=True)
    process, name = _serve(model, folder / f"server-{seed}.log")
    server = (
        f"sample.server.url={URL}",
        f"sample.server.model={name}",
        f"sample.server.tokenizer={model}",
        f"sample.server.relative_cost={cost:.2f}",
    )
    try:
        _reasonloop("run", "--workspace", workspace, "--seed", seed, *_sets((*STUDENT, *server)))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    found: dict[str, Any] = json.loads((workspace / "reports" / "metrics.json").read_text("utf-8"))
    return found


def _serve(model: pathlib.Path, log: pathlib.Path) -> "tuple[subprocess.Popen[bytes], str]":
    """The teacher, once it answers, and its name there."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", "serve", str(model), "--port", str(PORT)],
            cwd=REPOSITORY,
            stdout=stream,
            stderr=stream,
        )
    while True:
        try:
            answer = httpx.get(f"{URL}/models", trust_env=False)
            if answer.is_success:
                return process, answer.json()["data"][0]["id"]
        except httpx.HTTPError:
            pass
        if process.poll() is not None:
            raise ChildProcessError(f"the teacher's server ended; see {log}")
        time.sleep(1)


def _student_weights(folder: pathlib.Path) -> int:
    """Of the default base, which needs no training to be counted."""
    sizes = ("bootstrap.steps=1", "prepare.train_problems=8", "prepare.test_problems=8")
    for stage in ("prepare", "bootstrap"):
        _reasonloop("stage", stage, "--workspace", folder / "student", *_sets(sizes))
    return _weights(folder / "student" / "models" / "base")


def _weights(model: pathlib.Path) -> int:
    from safetensors import safe_open  # noqa: PLC0415 - with torch, which only this needs

    with safe_open(model / "model.safetensors", framework="pt") as file:
        return sum(file.get_tensor(name).numel() for name in file.keys())  # noqa: SIM118


def _sets(values: tuple[str, ...]) -> list[str]:
    return [word for one in values for word in ("--set", one)]


def _reasonloop(*arguments: object) -> None:
    command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
    subprocess.run(command, cwd=REPOSITORY, check=True)


if __name__ == "__main__":
    main()
