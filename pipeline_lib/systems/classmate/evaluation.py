"""Evaluation of policies on held-out problems: accuracy, and success of peers on their prefixes, paired; its claims."""

import pathlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from statistics import fmean

from pipeline_lib.engines.pretrained import load_tokenizer
from pipeline_lib.engines.running_engine import check_model
from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.trained import seen_in_training, trained_on
from pipeline_lib.records import Problem, Row
from pipeline_lib.store.files import check_output, read_json_lines
from pipeline_lib.store.manifests import read_manifest
from pipeline_lib.study.attempts import write_attempts
from pipeline_lib.study.headline import claims_of, is_unsolved, measured
from pipeline_lib.study.pages.page import (
    REPORT_NAME,
    Example,
    Page,
    Paper,
    ShownText,
    ShownTexts,
    write_page,
)
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import EMPTY, arm_in_words, percent
from pipeline_lib.study.provenance import provenance
from pipeline_lib.study.statistics.intervals import DifferenceFinding
from pipeline_lib.study.study import METRICS_NAME, Difference, Study, holm, write_study
from pipeline_lib.systems.classmate.draws import TrainedPeers, read_record
from pipeline_lib.systems.classmate.evaluation_draws import (
    continue_prefixes,
    is_complete,
    judged_groups,
    scores_of,
)
from pipeline_lib.systems.classmate.peer import HELD_OUT, TRAINING, Peer
from pipeline_lib.systems.classmate.peer_engine import check_readable
from pipeline_lib.systems.classmate.prefixes import asked_for, cut_paths, shuffled
from pipeline_lib.systems.classmate.study import Judged, Policy, base_name, classmate_study
from pipeline_lib.train.token_budget import PEER_TOKENS
from pipeline_lib.train.weights.policies import LOG_NAME, tokens_of
from pipeline_lib.verify.dispatch import open_verifier

_PAPER = Paper(
    title="ClassmateCoT: Collaborative Chain-of-Thought Reinforcement Learning",
    url="https://github.com/Lorenayannnnn/classmate-cot-verl",
)
_NOTES = (
    "Peers are frozen models that continue a prefix of a path; they succeed if prefix and continuation together are right.",
    "A share of the steps is kept, less where it would give the answer away.",
    "Each policy is one training: the intervals are over problems, and say nothing of other seeds.",
)
_EXAMPLES = 24
_MOST_MISSING = 0.01
"""Part of a peer's continuations, or of a policy's paths, without a score up to which there is a finding."""

OnProgress = Callable[[str, int, int], None]
"""Called with what is done, and finished and all shards of it."""


def evaluate_policies(  # noqa: PLR0913 - what an evaluation is of
    policies: Mapping[str, str],
    problems: Sequence[Problem],
    peers: Sequence[Peer],
    data: pathlib.Path,
    reports: pathlib.Path,
    params: Params,
    *,
    logs: pathlib.Path,
    held_out: Collection[str],
    controls: Collection[str] = (),
    on_progress: OnProgress = lambda _name, _done, _total: None,
) -> bool:
    """Evaluate policies on the same problems with the same seeds; a killed evaluation continues.

    ``policies`` are folders by name: the start, others, and last the policy in question. A gain counts against the
    ``controls``, by default all between the first and the last. ``held_out`` are names of peers that were asked in no
    training; ``data`` is the folder of paths and continuations, ``reports`` of the study.

    Returns:
        True if another call would draw no path, and ask for no continuation, again.

    Raises:
        BadInputError: fewer than two policies, a control that is none before the last, a policy that cannot be
            loaded, no peer, one that cannot read the problems, or a held-out one that a policy was trained with; nothing has been drawn then.
    """
    for name in (METRICS_NAME, REPORT_NAME):
        check_output(reports / name)
    asked = params.classmate.evaluate
    chosen = chosen_controls([*policies], controls)
    asked.check_against([*policies])
    for name, model in policies.items():
        with errors_at(name):
            check_model(model)
            load_tokenizer(model)
    named = (*params.classmate.classmate_model_name_or_path_list, *params.classmate.held_out)
    check_readable(named, problems)
    if not peers:
        raise BadInputError(
            "no classmate continues the prefixes; set classmate.classmate_model_name_or_path_list or "
            "classmate.held_out"
        )
    trained = {name: read_record(model) for name, model in policies.items()}
    check_held_out([peer for peer in peers if peer.name in held_out], trained)
    drawn = []
    with open_verifier(params.verify, workers=params.execution.workers) as verifier:
        for name, model in policies.items():
            groups = judged_groups(
                model,
                problems,
                data / "paths" / name,
                params,
                verifier=verifier,
                log_folder=logs,
                on_progress=partial(on_progress, name),
            )
            paths = cut_paths(groups, params.classmate, verifier)
            seen = seen_in_training(model, problems)
            training = training_figures(pathlib.Path(model), asked.accuracy)
            drawn.append(
                Policy(name=name, groups=groups, paths=paths, seen=seen, training=training)
            )
        rows = continue_prefixes(
            asked_for(path for one in drawn for path in (*one.paths, *shuffled(one.paths))),
            {problem.id: problem for problem in problems},
            peers,
            data / "continuations",
            params.classmate,
            verifier=verifier,
            verify=params.verify,
            seed=params.seed,
            on_progress=partial(on_progress, "prefixes"),
        )
    judged = Judged(
        policies=drawn,
        controls=chosen,
        peers={peer.name: HELD_OUT if peer.name in held_out else TRAINING for peer in peers},
        scores=scores_of(rows),
        keep=params.classmate.keep,
        headline=asked.headline,
        against=asked.against,
    )
    last = pathlib.Path([*policies.values()][-1])
    record = [*trained.values()][-1]
    study, series, attempts = classmate_study(
        judged,
        params.evaluate,
        seed=params.seed,
        provenance=provenance(params),
        draws_without_peers=count_draws_without_peers(last),
    )
    models = {f"classmate {peer.name}": peer.model for peer in named}
    is_control = record.is_control if record else params.classmate.bonus != "peers"
    controls = [base_name(name) for name in judged.ordered_controls]
    found = claims(study, controls, is_control=is_control)
    study = study.with_claims([*found, *trained_on(models, problems)])
    write_attempts(reports / "attempts", attempts)
    write_study(reports, study, series, problems)
    page = Page(
        title="Chains that peers can use",
        paper=_PAPER,
        notes=_NOTES,
        tables=[_training_table(study, asked.accuracy), _prefix_table(study)],
        examples=[_example(one, rows) for one in problems[:_EXAMPLES]],
    )
    write_page(reports / REPORT_NAME, study, page)
    return is_complete(rows) and not any(policy.unscored for policy in drawn)


def check_held_out(held_out: Sequence[Peer], trained: Mapping[str, TrainedPeers | None]) -> None:
    """Refuse a held-out peer whose success some policy was trained on."""
    for policy, record in trained.items():
        asked = {*record.identities.values()} if record and record.weight > 0 else set()
        for peer in held_out:
            if peer.identity in asked:
                raise BadInputError(
                    f"classmate {peer.name}: {policy} was trained with it, so it is not held out; list it in "
                    "classmate.classmate_model_name_or_path_list"
                )


def chosen_controls(policies: Sequence[str], named: Collection[str]) -> Collection[str]:
    """Names of the controls: those that are ``named``, which come before the last, else all between the first and the last."""
    if len(policies) < 2:
        raise BadInputError(
            f"{' '.join(policies)}: one policy; give the start, the controls, and last the one in question"
        )
    before = policies[:-1]
    for name in named:
        if name not in before:
            raise BadInputError(f"--control {name}: is none of {', '.join(before)}")
    return named or before[1:] or before


def count_draws_without_peers(model: pathlib.Path) -> int | None:
    """Draws of a training in which no peer gave any score; None if the model was not trained with peers."""
    log = model / LOG_NAME
    rows = [row for row in read_json_lines(log) if "base_reward" in row] if log.is_file() else []
    return sum("avg_classmate_score" not in row for row in rows) if rows else None


_WINDOW = 10
"""Draws whose mean reward the steps to an accuracy are read from."""


def training_figures(model: pathlib.Path, accuracy: float) -> dict[str, int | None]:
    """Steps and token passes of the online training of a policy, from its log and its manifest; empty without one.

    ``steps_to_accuracy`` are the steps until the mean verified reward of the last draws is ``accuracy``, None if it never
    is. ``token_passes`` are forward passes of a token in the actor and its peers; a learned token counts as three.
    """
    log = [*read_json_lines(model / LOG_NAME)] if (model / LOG_NAME).is_file() else []
    draws = [row for row in log if "reward" in row]
    if not draws:
        return {}
    verified = [row.get("base_reward", row["reward"]) for row in draws]
    means = [fmean(verified[end - _WINDOW : end]) for end in range(_WINDOW, len(verified) + 1)]
    reached = (end for end, mean in enumerate(means, _WINDOW) if mean >= accuracy)
    own = tokens_of(read_manifest(model))
    of_peers = sum(row[name] for row in draws for name in row if name.startswith(PEER_TOKENS))
    return {
        "steps": len(draws),
        "token_passes": int(own.drawn + 3 * own.trained + of_peers),
        "steps_to_accuracy": next(reached, None),
    }


def _training_table(study: Study, accuracy: float) -> Table:
    """Steps and token passes of the trainings."""
    return Table(
        caption="Trainings; a token pass is a token in the actor or a peer, a learned token counts as three",
        columns=(
            "arm",
            "steps",
            "million token passes",
            f"steps to {percent(accuracy)} of the draws right",
        ),
        rows=tuple(
            (
                *(name, str(row["steps"]), f"{row['token_passes'] / 1e6:.2f}"),
                EMPTY if row["steps_to_accuracy"] is None else str(row["steps_to_accuracy"]),
            )
            for name, row in study.compute["policies"].items()
            if "steps" in row
        ),
    )


def _prefix_table(study: Study) -> Table:
    """Kept steps, leaks and spread by arm and share."""
    peers = list(study.compute["peers"])
    return Table(
        caption="Prefixes by share of the steps; true deviation of a peer's success among the right prefixes of a problem",
        columns=(
            *("arm", "share", "kept steps", "cut back, since they gave the answer away"),
            *(f"deviation, {peer}" for peer in peers),
        ),
        rows=tuple(
            (
                *(row["arm"], f"{row['share']:g}", f"{row['kept_steps']:.2f}"),
                percent(row["leak_rate"]),
                *(
                    EMPTY if found is None else f"{found['sd']:.2f}"
                    for found in map(row["spread"].get, peers)
                ),
            )
            for row in study.compute["prefixes"]
        ),
    )


def _example(problem: Problem, rows: Sequence[Row]) -> Example:
    own = sorted(
        (row for row in rows if row["problem_id"] == problem.id),
        key=lambda row: (row["peer"], row["prefix"]),
    )
    return Example(
        id=problem.id,
        question=problem.question,
        groups=[
            ShownTexts(title=peer, texts=list(_shown(found)))
            for peer, found in groupby(own, key=lambda row: str(row["peer"]))
        ],
    )


def _shown(rows: Iterator[Row]) -> Iterator[ShownText]:
    for row in rows:
        outcome = {None: "discarded", True: "correct", False: "wrong"}[row["strict"]]
        about = (row["failure"],) if row["failure"] else ()
        yield ShownText(text=row["text"], outcome=outcome, about=about, prompt=row["prefix"])


def claims(study: Study, controls: Sequence[str], *, is_control: bool) -> tuple[str, ...]:
    """Gains over every control; no finding where too many scores are missing, by ``study.compute``.

    ``is_control``: the policy in question was trained with a bonus that a hash or chance dealt.
    """
    title, *figures = claims_of(study)
    if is_unsolved(study):
        return (title, *figures)
    if missing := list(_missing(study)):
        return (f"No finding: {_names(missing)} have no score.", *figures)
    gained, one = gains(study, num_controls=len(controls)), study.headline
    if one is not None and one.finding is DifferenceFinding.GAIN and _test(one) not in gained:
        title = f"No gain of {arm_in_words(one.arm)} over every control in {measured(one)}"
    return (title, *figures, *_sentences(gained, controls, is_control=is_control))


def _missing(study: Study) -> Iterator[str]:
    for what, found in (("paths", "policies"), ("continuations", "peers")):
        for name, counts in study.compute[found].items():
            if counts["unscored"] > _MOST_MISSING:
                yield f"{percent(counts['unscored'])} of the {what} of {name}"


def _sentences(
    gained: Sequence[str], controls: Sequence[str], *, is_control: bool
) -> Iterator[str]:
    yield (
        f"Gains over {_names(controls)}, corrected for several tests: {'; '.join(gained) or 'none'}."
    )
    if is_control:
        yield "Its bonus was dealt by a hash or by chance: what it gains, the peers did not give."
    elif len(controls) == 1 and any(not name.startswith(TRAINING) for name in gained):
        yield (
            f"It was compared with {controls[0]} alone: a gain counts only over both plain training and a hashed or "
            "shuffled bonus."
        )


def gains(study: Study, *, num_controls: int) -> list[str]:
    """Measures in which the last policy gains over every control.

    The p-value of a measure is the largest over the controls. pass@1 and the held-out peers are one family of
    tests, the peers of the training another; each is corrected by Holm's method.
    """
    families: dict[bool, dict[str, list[Difference]]] = {False: {}, True: {}}
    for one in study.differences:
        if one.p_adjusted is not None:
            families[one.measure == TRAINING].setdefault(_test(one), []).append(one)
    return [
        name
        for tests in families.values()
        for name, p in zip(
            tests, holm([_p_value(own, num_controls) for own in tests.values()]), strict=True
        )
        if p <= 1 - study.level
    ]


def _p_value(found: Sequence[Difference], num_controls: int) -> float:
    """The largest over the controls; 1 without a gain over each of them."""
    gained = [one.p for one in found if one.finding is DifferenceFinding.GAIN]
    return max(gained) if len(gained) == num_controls else 1.0


def _test(one: Difference) -> str:
    return f"{measured(one)} of {arm_in_words(one.arm)}"


def _names(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
