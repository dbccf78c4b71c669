"""Evaluation of policies on held-out problems: accuracy, and success of peers on their prefixes, paired."""

import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from pipeline_lib.engines.pretrained import load_tokenizer
from pipeline_lib.engines.running_engine import check_model
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.trained import trained_on
from pipeline_lib.records import Problem
from pipeline_lib.store.files import check_output, write_json
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.summary import EvalSummary, evaluate_groups
from pipeline_lib.systems.classmate.evaluation.continuations import continue_prefixes
from pipeline_lib.systems.classmate.evaluation.figures import (
    Estimates,
    compare_policies,
    empty_means,
    failed_share,
    policy_figures,
)
from pipeline_lib.systems.classmate.evaluation.headline import headline
from pipeline_lib.systems.classmate.evaluation.metrics_rows import comparison_row, metrics_content
from pipeline_lib.systems.classmate.evaluation.page import make_tables, write_page
from pipeline_lib.systems.classmate.evaluation.paths import judged_groups
from pipeline_lib.systems.classmate.evaluation.prefixes import (
    CutPath,
    asked_for,
    cut_paths,
    shuffled,
)
from pipeline_lib.systems.classmate.evaluation.training_log import count_draws_without_peers
from pipeline_lib.systems.classmate.peer import Peer
from pipeline_lib.systems.classmate.readable import check_readable
from pipeline_lib.systems.classmate.trained_peers import TrainedPeers, read_record
from pipeline_lib.verify.dispatch import Verifier, open_verifier

OnProgress = Callable[[str, int, int], None]
"""Called with what is done, and finished and all shards of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationFiles:
    """Files and folders of an evaluation."""

    folder: pathlib.Path
    """Paths and continuations, which a killed evaluation continues from."""
    metrics: pathlib.Path
    report: pathlib.Path
    logs: pathlib.Path
    """Folder of the log of an engine's server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedPeers:
    """Peers, ready for calls."""

    training: Sequence[Peer]
    """Asked in the training of the policy in question."""
    held_out: Sequence[Peer]
    """Asked in no training."""

    @classmethod
    def divided(cls, peers: Sequence[Peer], *, held_out: Collection[PeerParams]) -> Self:
        """Peers with those of ``held_out`` apart."""
        apart = {peer.name for peer in held_out}
        return cls(
            training=[peer for peer in peers if peer.name not in apart],
            held_out=[peer for peer in peers if peer.name in apart],
        )

    @property
    def names(self) -> list[str]:
        """Of all peers."""
        return [peer.name for peer in (*self.training, *self.held_out)]

    @property
    def held_out_names(self) -> list[str]:
        """Of the peers that no training asked."""
        return [peer.name for peer in self.held_out]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """Findings of an evaluation."""

    sentences: Sequence[str]
    tables: Sequence[Table]
    is_complete: bool
    """No path would be drawn, and no continuation asked for, again."""


def evaluate_policies(  # noqa: PLR0913 - what an evaluation is of
    policies: Mapping[str, str],
    problems: Sequence[Problem],
    peers: EvaluatedPeers,
    files: EvaluationFiles,
    params: Params,
    *,
    controls: Collection[str] = (),
    on_progress: OnProgress = lambda _name, _done, _total: None,
) -> Evaluated:
    """Evaluate policies on the same problems with the same seeds; a killed evaluation continues.

    Args:
        policies: Hugging Face folders by name: the start, others, and last the policy in question.
        problems: of the test split.
        peers: with distinct names.
        files: to write.
        params: sections classmate, sample, evaluate, verify and serve, and the seed.
        controls: names of those that a gain counts against; empty: all between the first and the last.
        on_progress: called with finished work.

    Raises:
        BadInputError: fewer than two policies, a control that is none before the last, a policy that cannot be
            loaded, no peer, one that cannot read the problems, or a held-out one that a policy was trained with; nothing has been drawn then.
    """
    for file in (files.metrics, files.report):
        check_output(file)
    chosen = chosen_controls([*policies], controls)
    for name, model in policies.items():
        _check_policy(name, model)
    named = (*params.classmate.classmate_model_name_or_path_list, *params.classmate.held_out)
    check_readable(named, problems)
    if not peers.names:
        raise BadInputError(
            "no classmate continues the prefixes; set classmate.classmate_model_name_or_path_list or "
            "classmate.held_out"
        )
    trained = {name: read_record(model) for name, model in policies.items()}
    check_held_out(peers.held_out, trained)
    names, held_out = peers.names, peers.held_out_names
    estimates = Estimates(params=params.evaluate, seed=params.seed)
    with open_verifier(params.verify, workers=params.execution.workers) as verifier:
        summaries, paths = _draw(policies, problems, files, params, verifier, on_progress)
        asked = asked_for(one for own in paths.values() for one in (*own, *shuffled(own)))
        continued = continue_prefixes(
            asked,
            {problem.id: problem for problem in problems},
            (*peers.training, *peers.held_out),
            files.folder / "continuations",
            params.classmate,
            verifier=verifier,
            verify=params.verify,
            seed=params.seed,
            moved=partial(on_progress, "prefixes"),
        )
    scores = continued.scores
    figures = [
        policy_figures(name, summaries[name], paths[name], names, scores, estimates)
        for name in policies
    ]
    compared = compare_policies(summaries, paths, names, scores, estimates)
    against = [
        one for one in compared if one.policy == figures[-1].name and one.reference in chosen
    ]
    empty = {
        name: estimates.interval(
            empty_means((problem.id for problem in problems), name, scores), name, "empty"
        )
        for name in names
    }
    last = pathlib.Path([*policies.values()][-1])
    record = [*trained.values()][-1]
    is_blind = record.is_blind if record else params.classmate.bonus == "blind"
    failed = {name: failed_share(scores, name) for name in names}
    unscored = {name: one.num_unscored / one.num_paths for name, one in summaries.items()}
    models = {**policies, **{f"classmate {peer.name}": peer.model for peer in named}}
    sentences = [
        *headline(against, failed, held_out, unscored=unscored, is_blind=is_blind),
        *trained_on(models, problems),
    ]
    content = metrics_content(figures, compared, empty, failed, held_out)
    settings = {
        "seed": params.seed,
        "classmate": params.classmate.model_dump(mode="json"),
        "sample": params.sample.model_dump(mode="json"),
        "evaluate": params.evaluate.model_dump(mode="json"),
    }
    write_json(
        files.metrics,
        {
            "headline": sentences,
            "settings": settings,
            **content,
            "paired": comparison_row(against[0]),
            "draws_without_classmates": count_draws_without_peers(last),
        },
    )
    tables = make_tables(figures, compared, held_out, empty, failed)
    questions = {problem.id: problem.question for problem in problems}
    write_page(files.report, sentences, tables, continued.rows, questions)
    return Evaluated(
        sentences=sentences,
        tables=tables,
        is_complete=continued.is_complete and not any(unscored.values()),
    )


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
    files: EvaluationFiles,
    params: Params,
    verifier: Verifier,
    on_progress: OnProgress,
) -> tuple[dict[str, EvalSummary], dict[str, list[CutPath]]]:
    """Summary and cut paths of each policy."""
    summaries, paths = {}, {}
    for name, model in policies.items():
        groups = judged_groups(
            model,
            problems,
            files.folder / "paths" / name,
            params,
            verifier=verifier,
            log_folder=files.logs,
            moved=partial(on_progress, name),
        )
        summaries[name] = evaluate_groups(groups, params.evaluate, seed=params.seed)
        paths[name] = cut_paths(groups, params.classmate, verifier)
    return summaries, paths
