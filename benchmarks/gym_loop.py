"""The loop against its control on two data sets of reasoning-gym, with intervals.

For each data set ``reasonloop run --seeds`` trains a small base on worked solutions, then on its own verified paths; the
control trains on the worked solutions alone, on the loop's trained tokens and a share of its drawn ones. The report
gives the CPU seconds of both: the loop's hold those of the judging, in a jail. Every part resumes. The settings were
found on seed 101. A seed takes 7 to 18 minutes on a core beside other work; after ``make tasks-env``, on two cores:

    python -m benchmarks.gym_loop --folder /tmp/gym_loop --seeds 7,8,9
"""

import json
import pathlib
import subprocess
import sys
from collections.abc import Mapping

from benchmarks.lib.command_line import make_parser
from benchmarks.lib.repository import REPOSITORY
from benchmarks.lib.seeds import mean_of, points
from benchmarks.methods import difference

SETTINGS = ("prepare.dataset=gym", 'prepare.prompt="{question}\\n"', "execution.runner=thread")
"""Of both; the others are those of the profile `quickstart`."""
SETS: Mapping[str, tuple[str, ...]] = {
    "spell_backward": ("prepare.gym={spell_backward: {config: {max_word_len: 6}}}",),
    "basic_arithmetic": (
        (
            'prepare.gym={basic_arithmetic: {config: {max_terms: 2, max_digits: 2, operators: ["+"], '
            "allow_parentheses: false, allow_negation: false}}}"
        ),
        *("bootstrap.steps=600", "train.steps=600"),
    ),
}


def main() -> None:
    """Run the seeds of each data set and show them together."""
    parser = make_parser(__doc__)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", default="7,8,9")
    parser.add_argument("--sets", default=",".join(SETS))
    arguments = parser.parse_args()
    for name in arguments.sets.split(","):
        workspace = arguments.folder.resolve() / name
        command = ["run", "--profile", "quickstart", "--workspace", str(workspace)]
        sets = [word for one in (*SETTINGS, *SETS[name]) for word in ("--set", one)]
        command += ["--seeds", arguments.seeds, *sets]
        subprocess.run([sys.executable, "-m", "flows.cli", *command], cwd=REPOSITORY, check=True)
        files = [
            workspace / f"seed-{seed}" / "reports" / "metrics.json"
            for seed in arguments.seeds.split(",")
        ]
        metrics = [json.loads(file.read_text("utf-8")) for file in files]
        for arm, reference in (("policy", "control"), ("policy", "base"), ("control", "base")):
            each = [difference(one, arm, reference, 1) for one in metrics]
            print(
                f"{name}, {arm} - {reference}: {points(mean_of(each))} over problems, by seed "
                f"{', '.join(points(one) for one in each)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
