"""`reasonloop classmate train` and `evaluate`: for models that are there, without a workspace."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from flows.cli.options import (
    DEFAULT_PARAMS,
    DEFAULT_RUNNER,
    ModelFolder,
    ParamsOptions,
    RunnerOptions,
    read_named,
)
from flows.cli.progress import progress_bar
from flows.cli.serving import exit_on_sigterm
from flows.cli.tables import print_evaluation
from flows.ray.classmate_peers import inexact_note, running_peers
from flows.run.admission import check_trackers
from flows.run.terminal import say
from pipeline_lib.errors import BadInputError


def train(
    base: Annotated[
        str, Parameter(help="The actor at the start: a Hugging Face folder or hub id.")
    ],
    /,
    *,
    output: ModelFolder,
    runner: RunnerOptions = DEFAULT_RUNNER,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    r"""Train an actor with the peers that the params name, or plainly with none and the weight 0.

    Problems are the train split of `classmate.prepare`. An interrupted training resumes. Draws are kept in
    OUTPUT.draws, which `show` reads.

    **Examples:**

        reasonloop classmate train models/base --output models/actor \
            --set 'classmate.classmate_model_name_or_path_list=[models/one, models/two]'
        reasonloop classmate train models/base --output models/plain --set classmate.classmate_reward_weight=0
    """
    exit_on_sigterm()
    loaded = params.load(runner.given)
    from pipeline_lib.systems.classmate.preflight import (  # noqa: PLC0415 - after the params
        check_is_meant_plain,
        check_settings,
        check_training_output,
    )
    from pipeline_lib.systems.classmate.problem_files import load_problems  # noqa: PLC0415 - as above
    from pipeline_lib.systems.classmate.training import (  # noqa: PLC0415 - as above
        ActorTraining,
        failure_notes,
        train_actor,
    )

    check_is_meant_plain(loaded.classmate)
    check_settings(loaded)
    check_trackers(loaded.execution)
    output = output.resolve()
    peers = loaded.classmate.classmate_model_name_or_path_list
    check_training_output(output, [base, *(peer.model for peer in peers)])
    training = ActorTraining(
        base=base,
        problems=load_problems(loaded.classmate.prepare, "train", seed=loaded.seed, say=say),
        output=output,
        draws=output.with_name(f"{output.name}.draws"),
        trackers=output.with_name(f"{output.name}.trackers"),
        params=loaded,
    )
    logs = output.with_name(f"{output.name}.peers")
    if (note := inexact_note(peers)) is not None:
        say(note)
    with (
        running_peers(peers, loaded.execution, root=logs) as opened,
        progress_bar("classmate train") as moved,
    ):
        summary = train_actor(training, opened, progress=moved)
        notes = failure_notes(training, opened)
    say(f"model: {output}, {summary.steps} steps, digest {summary.digest[:16]}")
    for note in notes:
        say(note)
    say("last step: " + ", ".join(f"{name} {value:.3g}" for name, value in summary.last.items()))


def evaluate(
    policies: Annotated[
        tuple[str, ...],
        Parameter(
            help="NAME=MODEL, two or more: the start, then others (plain, hashed), and last the policy in question."
        ),
    ],
    /,
    *,
    output: Annotated[pathlib.Path, Parameter(help="Folder of metrics.json and report.html.")],
    control: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            help="NAME that gains of the last policy count against. Repeatable; default: all between the "
            "first and the last.",
        ),
    ] = (),
    runner: RunnerOptions = DEFAULT_RUNNER,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    r"""Compare policies on the test split of `classmate.prepare`: their accuracy, and the success of peers on their prefixes.

    Peers are those that the params name, held-out ones included. A killed evaluation continues.

    **Example:**

        reasonloop classmate evaluate base=models/base plain=models/plain hashed=models/hashed peers=models/actor \
            --output reports/three --profile three.yaml
    """
    exit_on_sigterm()
    loaded = params.load(runner.given)
    from pipeline_lib.systems.classmate.preflight import check_peers  # noqa: PLC0415 - after the params

    check_peers(loaded.classmate)
    form = "NAME=MODEL, as in plain=models/plain"
    models = dict(read_named(policy, form) for policy in policies)
    if len(models) < len(policies):
        raise BadInputError(f"{' '.join(policies)}: a name is given twice; rename one")
    from pipeline_lib.systems.classmate.evaluation import evaluate_policies  # noqa: PLC0415 - after the params
    from pipeline_lib.systems.classmate.problem_files import load_problems  # noqa: PLC0415 - after the params

    classmate, output = loaded.classmate, output.resolve()
    named = (*classmate.classmate_model_name_or_path_list, *classmate.held_out)
    with (
        running_peers(named, loaded.execution, root=output) as peers,
        progress_bar("classmate evaluate") as moved,
    ):
        evaluate_policies(
            models,
            load_problems(classmate.prepare, "test", seed=loaded.seed, say=say),
            peers,
            output / "data",
            output,
            loaded,
            logs=output / "logs",
            held_out={peer.name for peer in classmate.held_out},
            controls=control,
            on_progress=lambda _name, done, total: moved(done, total),
        )
    print_evaluation(output)
