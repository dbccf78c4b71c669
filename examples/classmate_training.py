"""Train an actor with peers: python classmate_training.py BASE OUTPUT [KEY=VALUE of params.yaml ...]."""

import pathlib
import sys

from flows.ray.classmate_peers import running_peers
from pipeline_lib.params_file import load_params
from pipeline_lib.systems.classmate.problem_files import load_problems
from pipeline_lib.systems.classmate.training import ActorTraining, train_actor

base, output, params = sys.argv[1], pathlib.Path(sys.argv[2]), load_params(overrides=sys.argv[3:])
problems = load_problems(params.classmate.prepare, "train", seed=params.seed)
draws, trackers = output.with_suffix(".draws"), output.with_suffix(".trackers")
training = ActorTraining(
    base=base, problems=problems, output=output, draws=draws, trackers=trackers, params=params
)
named = params.classmate.classmate_model_name_or_path_list
with running_peers(named, params.execution, root=output.parent) as peers:
    summary = train_actor(training, peers, progress=print)
print(f"{output}: {summary.steps} steps; {summary.last}")
