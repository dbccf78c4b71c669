"""A student that learns from the paths of a larger teacher behind a server, beside its control and the teacher.

The teacher is made here: a Llama of more weights, trained on more worked solutions of the default problem. Then for each
seed ``reasonloop run`` with ``sample.server``: the teacher's verified paths train the student by SFT, the control trains
on worked solutions for as much processor time, the teacher's included, and the untouched teacher is evaluated. Every
part resumes; about three hours for three seeds on two cores:

    python -m benchmarks.teacher --folder /tmp/teacher --seeds 7,8,9
"""

import pathlib
import signal
import subprocess
import sys
import time

import httpx

from benchmarks.lib.command_line import make_parser
from benchmarks.lib.repository import REPOSITORY

PORT = 8430
TEACHER = (
    "prepare.bootstrap_problems=6000",
    "bootstrap.hidden_size=256",
    "bootstrap.num_layers=6",
    "bootstrap.steps=1500",
    "bootstrap.threads=2",
)
STUDENT = ("rounds=1",)


def main() -> None:
    """Make the teacher, then run the seeds and show them together."""
    parser = make_parser(__doc__)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", default="7,8,9")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    for stage in ("prepare", "bootstrap"):
        _reasonloop("stage", stage, "--workspace", folder / "teacher", *_sets(TEACHER))
    model = folder / "teacher" / "models" / "base"
    # Of the same architecture, so the cost of a token is about proportional to its weights.
    cost = _weights(model) / _student_weights(folder)
    print(f"a token of the teacher costs {cost:.1f} of the student's", flush=True)
    server = (
        f"sample.server.url=http://127.0.0.1:{PORT}/v1",
        f"sample.server.model={model}",
        f"sample.server.tokenizer={model}",
        f"sample.server.relative_cost={cost:.2f}",
    )
    process = _serve(model, folder / "server.log")
    try:
        _reasonloop(
            *("run", "--workspace", folder / "run", "--seeds", arguments.seeds),
            *_sets((*STUDENT, *server)),
        )
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _serve(model: pathlib.Path, log: pathlib.Path) -> "subprocess.Popen[bytes]":
    """The teacher, once it answers; its name there is its folder."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", "serve", str(model), "--port", str(PORT)],
            cwd=REPOSITORY,
            stdout=stream,
            stderr=stream,
        )
    while True:
        try:
            if httpx.get(f"http://127.0.0.1:{PORT}/v1/models", trust_env=False).is_success:
                return process
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
