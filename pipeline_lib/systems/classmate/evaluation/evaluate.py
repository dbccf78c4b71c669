"""Evaluation of policies on held-out problems: accuracy, and success of peers on their prefixes, paired."""

import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pipeline_lib.engines.pretrained import load_tokenizer
from pipeline_lib.engines.running_engine import check_model
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.trained import seen_in_training, trained_on
from pipeline_lib.publish.reporting.revision import provenance
from pipeline_lib.records import Problem
from pipeline_lib.store.files import check_output, read_json_lines
from pipeline_lib.study.attempts import write_attempts
from pipeline_lib.study.pages.page import REPORT_NAME, write_page
from pipeline_lib.study.study import METRICS_NAME, Study, write_study
from pipeline_lib.systems.classmate.evaluation.continuations import Continued, continue_prefixes
from pipeline_lib.systems.classmate.evaluation.page import classmate_page
from pipeline_lib.systems.classmate.evaluation.paths import judged_groups
from pipeline_lib.systems.classmate.evaluation.prefixes import asked_for, cut_paths, shuffled
from pipeline_lib.systems.classmate.evaluation.study import Judged, Policy, classmate_study
from pipeline_lib.systems.classmate.peer import Peer
from pipeline_lib.systems.classmate.readable import check_readable
from pipeline_lib.systems.classmate.scoring import HELD_OUT, TRAINING
from pipeline_lib.systems.classmate.trained_peers import TrainedPeers, read_record
from pipeline_lib.train.weights.policies import LOG_NAME
from pipeline_lib.verify.dispatch import open_verifier

OnProgress = Callable[[str, int, int], None]
"""Called with what is done, and finished and all shards of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationFolders:
    """Folders of an evaluation."""

    data: pathlib.Path
    """Paths and continuations, which a killed evaluation continues from."""
    reports: pathlib.Path
    """Metrics, page and tables of the study."""
    logs: pathlib.Path
    """Log of an engine's server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """A finished evaluation."""

    study: Study
    is_complete: bool
    """No path would be drawn, and no continuation asked for, again."""


def evaluate_policies(  # noqa: PLR0913 - what an evaluation is of
    policies: Mapping[str, str],
    problems: Sequence[Problem],
    peers: Sequence[Peer],
    folders: EvaluationFolders,
    params: Params,
    *,
    held_out: Collection[str],
    controls: Collection[str] = (),
    on_progress: OnProgress = lambda _name, _done, _total: None,
) -> Evaluated:
    """Evaluate policies on the same problems with the same seeds; a killed evaluation continues.

    Args:
        policies: Hugging Face folders by name: the start, others, and last the policy in question.
        problems: of the test split.
        peers: ready for calls, with distinct names.
        folders: to write.
        params: sections classmate, sample, evaluate, verify and serve, and the seed.
        held_out: names of the peers that were asked in no training.
        controls: names of those that a gain counts against; empty: all between the first and the last.
        on_progress: called with finished work.

    Raises:
        BadInputError: fewer than two policies, a control that is none before the last, a policy that cannot be
            loaded, no peer, one that cannot read the problems, or a held-out one that a policy was trained with; nothing has been drawn then.
    """
    for name in (METRICS_NAME, REPORT_NAME):
        check_output(folders.reports / name)
    chosen = chosen_controls([*policies], controls)
    for name, model in policies.items():
        _check_policy(name, model)
    named = (*params.classmate.classmate_model_name_or_path_list, *params.classmate.held_out)
    check_readable(named, problems)
    if not peers:
        raise BadInputError(
            "no classmate continues the prefixes; set classmate.classmate_model_name_or_path_list or "
            "classmate.held_out"
        )
    trained = {name: read_record(model) for name, model in policies.items()}
    check_held_out([peer for peer in peers if peer.name in held_out], trained)
    drawn, continued = _draw(policies, problems, peers, folders, params, on_progress)
    judged = Judged(
        policies=drawn,
        controls=chosen,
        peers={peer.name: HELD_OUT if peer.name in held_out else TRAINING for peer in peers},
        scores=continued.scores,
        keep=params.classmate.keep,
    )
    last = pathlib.Path([*policies.values()][-1])
    record = [*trained.values()][-1]
    made = classmate_study(
        judged,
        params.evaluate,
        seed=params.seed,
        provenance=provenance(params),
        is_blind=record.is_blind if record else params.classmate.bonus == "blind",
        draws_without_peers=count_draws_without_peers(last),
    )
    models = {f"classmate {peer.name}": peer.model for peer in named}
    study = made.study.with_claims([*made.study.claims, *trained_on(models, problems)])
    write_attempts(folders.reports / "attempts", made.attempts)
    write_study(folders.reports, study, made.series, problems)
    page = classmate_page(study, problems, continued.rows)
    write_page(folders.reports / REPORT_NAME, study, page)
    is_scored = not any(policy.unscored for policy in drawn)
    return Evaluated(study=study, is_complete=continued.is_complete and is_scored)


def _check_policy(name: str, model: str) -> None:
    """Check that a policy can be loaded, before anything is drawn."""
    try:
        check_model(model)
        load_tokenizer(model)
    except BadInputError as error:
        raise BadInputError(f"{name}: {error}") from error


def check_held_out(held_out: Sequence[Peer], trained: Mapping[str, TrainedPeers | None]) -> None:
    """Check that no policy was trained on the success of a held-out peer.

    Raises:
        BadInputError: one was.
    """
    for policy, record in trained.items():
        asked = {*record.identities.values()} if record and record.weight > 0 else set()
        for peer in held_out:
            if peer.identity in asked:
                raise BadInputError(
                    f"classmate {peer.name}: {policy} was trained with it, so it is not held out; list it in "
                    "classmate.classmate_model_name_or_path_list"
                )


def chosen_controls(policies: Sequence[str], named: Collection[str]) -> Collection[str]:
    """Names of the controls: those that are ``named``, else all between the first and the last.

    Raises:
        BadInputError: fewer than two policies, or a control that is none before the last.
    """
    if len(policies) < 2:
        raise BadInputError(
            f"{' '.join(policies)}: one policy; give the start, the controls, and last the one in question"
        )
    before = policies[:-1]
    for name in named:
        if name not in before:
            raise BadInputError(f"--control {name}: is none of {', '.join(before)}")
    return named or before[1:] or before


def _draw(
    policies: Mapping[str, str],
    problems: Sequence[Problem],
    peers: Sequence[Peer],
    folders: EvaluationFolders,
    params: Params,
    on_progress: OnProgress,
) -> tuple[list[Policy], Continued]:
    """Judged and cut paths of each policy, and continuations of all prefixes."""
    drawn = []
    with open_verifier(params.verify, workers=params.execution.workers) as verifier:
        for name, model in policies.items():
            groups = judged_groups(
                model,
                problems,
                folders.data / "paths" / name,
                params,
                verifier=verifier,
                log_folder=folders.logs,
                moved=partial(on_progress, name),
            )
            drawn.append(
                Policy(
                    name=name,
                    groups=groups,
                    paths=cut_paths(groups, params.classmate, verifier),
                    seen=seen_in_training(model, problems),
                )
            )
        continued = continue_prefixes(
            asked_for(path for one in drawn for path in (*one.paths, *shuffled(one.paths))),
            {problem.id: problem for problem in problems},
            peers,
            folders.data / "continuations",
            params.classmate,
            verifier=verifier,
            verify=params.verify,
            seed=params.seed,
            moved=partial(on_progress, "prefixes"),
        )
    return drawn, continued


def count_draws_without_peers(model: pathlib.Path) -> int | None:
    """Draws of a training in which no peer gave any score; None if the model was not trained with peers."""
    log = model / LOG_NAME
    rows = [row for row in read_json_lines(log) if "base_reward" in row] if log.is_file() else []
    return sum("avg_classmate_score" not in row for row in rows) if rows else None
