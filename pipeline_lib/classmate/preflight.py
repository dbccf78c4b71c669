"""Checks before a training with peers: what its params name exists and can be trained."""

from pipeline_lib.classmate.body import check_peer
from pipeline_lib.classmate.reward import check_method
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.table import check_data_set
from pipeline_lib.serving.running_engine import check_model


def check_settings(params: Params) -> None:
    """Check section classmate.

    Raises:
        BadInputError: an unknown data set, model or engine, a server that would have to render prompts, or a
            method that cannot train on the peers' success.
    """
    classmate = params.classmate
    check_data_set(classmate.prepare.dataset)
    if classmate.bootstrap.model is not None:
        try:
            check_model(classmate.bootstrap.model)
        except BadInputError as error:
            raise BadInputError(f"classmate.bootstrap: {error}") from error
    for peer in (*classmate.classmate_model_name_or_path_list, *classmate.held_out):
        check_peer(peer)
    if classmate.classmate_model_name_or_path_list or classmate.made_peers:
        check_method(classmate, classmate.train)
