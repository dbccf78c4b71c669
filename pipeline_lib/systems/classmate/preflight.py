"""Checks before a training with peers: what its params name exists and can be trained."""

import pathlib
from collections.abc import Iterable

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.known.table import check_own_engine
from pipeline_lib.engines.pretrained import load_tokenizer
from pipeline_lib.engines.running_engine import check_model
from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.params.classmate import ClassmateParams, PeerParams
from pipeline_lib.params.train import TrainParams
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.loading import check_data_set
from pipeline_lib.store.folders import check_output_folder
from pipeline_lib.systems.classmate.peer_engine import check_peer
from pipeline_lib.systems.classmate.reward import check_method
from pipeline_lib.systems.stage import Run
from pipeline_lib.train.weights import policies
from pipeline_lib.train.weights.models import make_quantization_config


def check_run(run: Run, *, draws: bool) -> None:
    """Check the engine of the params, that there is a peer, and what `check_settings` checks."""
    check_own_engine(run.params.serve, is_started=draws)
    check_has_peer(run.params.classmate)
    check_settings(run.params)
    classmate = run.params.classmate
    classmate.evaluate.check_against(["base", *(arm.name for arm in classmate.arms)])


def check_settings(params: Params) -> None:
    """Check section classmate.

    Raises:
        BadInputError: an unknown data set or model, a method that cannot train on the peers' success, a setting
            without effect, or as `check_peers`.
    """
    classmate = params.classmate
    _check_unused(classmate.train)
    for one in (classmate, *map(classmate.of_arm, classmate.arms)):
        check_method(one, one.train)
    check_data_set(classmate.prepare)
    if classmate.bootstrap.model is not None:
        with errors_at("classmate.bootstrap"):
            check_model(classmate.bootstrap.model)
    if (precision := classmate.train.lora.quantize) != "none":
        make_quantization_config(precision)
    check_peers(classmate)


def check_peers(classmate: ClassmateParams) -> None:
    """Check the named peers, as `check_peer`, their tokenizers, and that no held-out one is of the training, too."""
    training = [check_peer(peer) for peer in classmate.classmate_model_name_or_path_list]
    held_out = [check_peer(peer) for peer in classmate.held_out]
    asked = {_weights(peer) for peer in training}
    for peer in held_out:
        if _weights(peer) in asked:
            raise BadInputError(
                f"classmate {peer.name}: {peer.model} is also a peer of the training, so it is not held out; "
                "give another model"
            )
    # Last, since a hub id is looked up: what only looks like one is found before the first training.
    for peer in (*training, *held_out):
        with errors_at(f"classmate {peer.name}"):
            load_tokenizer(peer.serve.tokenizer or peer.model)


def _weights(peer: PeerParams) -> tuple[str, str | None]:
    """Key of a peer's model; copies of a folder have the same."""
    return model_identity(peer.model), peer.serve.url


def check_training_output(output: pathlib.Path, models: Iterable[str]) -> None:
    """Refuse an output that holds other files, or is the folder of one of ``models``."""
    check_output_folder(output, kind=policies.KIND)
    for model in models:
        if pathlib.Path(model).resolve() == output.resolve():
            raise BadInputError(
                f"{output}: is the base or a peer of the training; choose another --output"
            )


def check_has_peer(classmate: ClassmateParams) -> None:
    """Refuse stages without a peer of the training, named or made."""
    named = classmate.classmate_model_name_or_path_list
    if not named and all(recipe.held_out for recipe in classmate.made_peers):
        raise BadInputError(
            "classmate.classmate_model_name_or_path_list and classmate.made_peers have no peer for the training; "
            "name or make one"
        )


def check_is_meant_plain(classmate: ClassmateParams) -> None:
    """Refuse a training without named peers, though the weight of their success is above 0."""
    weight = classmate.classmate_reward_weight
    if not classmate.classmate_model_name_or_path_list and weight > 0:
        raise BadInputError(
            f"classmate.classmate_model_name_or_path_list is empty, and classmate.classmate_reward_weight={weight:g}; "
            "name a peer, or set the weight 0 for a plain training"
        )


def _check_unused(train: TrainParams) -> None:
    """Refuse settings of the loop's training that this one does not have."""
    if train.warm_start_steps:
        raise BadInputError(
            f"classmate.train.warm_start_steps={train.warm_start_steps}: the actor has no warm start; set 0"
        )
    if train.control:
        raise BadInputError("classmate.train.control=true: the control is an arm; set false")
    if train.processes > 1:
        raise BadInputError(
            f"classmate.train.processes={train.processes}: the peers answer one process; set 1"
        )
    if train.rewards:
        raise BadInputError(
            "classmate.train.rewards: the reward is the verdict and the peers' success; leave it out"
        )
