"""Checks before a training with peers: what its params name exists and can be trained."""

from pipeline_lib.classmate.body import check_peer
from pipeline_lib.classmate.reward import check_method
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.table import check_data_set
from pipeline_lib.serving.pretrained import load_tokenizer
from pipeline_lib.serving.running_engine import check_model


def check_settings(params: Params) -> None:
    """Check section classmate.

    Raises:
        BadInputError: an unknown data set, model or engine, a peer without a tokenizer that can be loaded, a
            server that would have to render prompts, or a method that cannot train on the peers' success.
    """
    classmate = params.classmate
    check_data_set(classmate.prepare.dataset)
    if classmate.bootstrap.model is not None:
        try:
            check_model(classmate.bootstrap.model)
        except BadInputError as error:
            raise BadInputError(f"classmate.bootstrap: {error}") from error
    peers = [
        check_peer(peer)
        for peer in (*classmate.classmate_model_name_or_path_list, *classmate.held_out)
    ]
    if classmate.classmate_model_name_or_path_list or classmate.made_peers:
        check_method(classmate, classmate.train)
    # Last, since a hub id is looked up: what only looks like one is found before the first training.
    for peer in peers:
        try:
            load_tokenizer(peer.serve.tokenizer or peer.model)
        except BadInputError as error:
            raise BadInputError(f"classmate {peer.name}: {error}") from error
