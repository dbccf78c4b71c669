"""Rollouts of other tools, judged: agreement with their rewards, and accuracy by file, model and step."""

import json
import pathlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.math import MATH, last_boxed
from pipeline_lib.kinds.task_sets import VERIFIERS
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.overlap import normalized_question
from pipeline_lib.records import FinishReason, Group, Interval, Row
from pipeline_lib.store.files import digest_json, numbered_json_lines, write_json_lines
from pipeline_lib.study.headline import claims_of
from pipeline_lib.study.pages import page
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import score
from pipeline_lib.study.policies import LENIENT, policy_contrasts, score_policy
from pipeline_lib.study.statistics.intervals import wilson_interval
from pipeline_lib.study.study import Arm, Study, make_study, write_study
from pipeline_lib.systems.loop.imports.formats import MAIN, Rollout, read_rollouts
from pipeline_lib.systems.loop.reporting.examples import visible
from pipeline_lib.verify.lines import OnProgress, groups_from_lines, parse_line

PATHS_NAME, DISAGREEMENTS_NAME = "paths.jsonl", "disagreements.jsonl"
_NO_NAME = re.compile(r"[^\w.=-]+")
_CELLS = {
    "both right": (True, True),
    "both wrong": (False, False),
    "right by it alone": (True, False),
    "right by us alone": (False, True),
}
Finder = Callable[[Rollout], Row]
"""From a text to the fields of its problem in a line."""


def problem_finder(kind: str, source: pathlib.Path | None) -> Finder:
    """Problems of the file ``source``, by question or id; of other texts what their own file has.

    Raises:
        BadInputError: a line that cannot be used; when called, a text without a gold.
    """
    by_id, by_question = {}, {}
    for number, row in numbered_json_lines(source) if source else ():
        line = parse_line({"kind": kind, **row, "text": ""}, where=f"{source}:{number}")
        name = line.problem_id or line.id or f"line-{number}"
        by_id[name] = {"kind": kind, **row, "problem_id": name}
        if line.question:
            by_question[normalized_question(line.question)] = by_id[name]

    @cache
    def asked(prompt: str) -> Row | None:
        """The last question in a prompt, which may begin with worked examples."""
        whole = normalized_question(prompt)
        ends = [(whole.rfind(own) + len(own), len(own), own) for own in by_question if own in whole]
        return by_question[max(ends)[2]] if ends else None

    def find(one: Rollout) -> Row:
        given = asked(one.question) if isinstance(one.question, str) else None
        if given := given or by_id.get(str(one.name)):
            return given
        if kind == VERIFIERS.name and one.task is not None:
            fields = one.task
        elif one.gold is not None:
            fields = {"question": one.question, **_gold_fields(one.gold, kind)}
        else:
            raise BadInputError(f"{one.where}: has no gold; give --problems FILE that has it")
        fields = {"kind": kind, **fields}
        return {**fields, "problem_id": digest_json(fields)[:16]}

    return find


def _gold_fields(gold: Any, kind: str) -> Row:
    if isinstance(gold, list) and len(gold) == 1 and isinstance(gold[0], str):
        [gold] = gold
    if kind == MATH.name:
        is_solution, boxed = "####" in str(gold), last_boxed(str(gold))
        return {"reference": gold} if is_solution else {"gold": boxed or gold}
    with suppress(ValueError, TypeError, RecursionError):
        gold = json.loads(gold)
    return gold if isinstance(gold, dict) else {"gold": gold}


def read_lines_of(
    files: Mapping[str, pathlib.Path], form: str | None, find: Finder, *, rewards: Sequence[str]
) -> list[Row]:
    """The texts of files as lines of paths, with ``arm``, ``source`` and the compared ``rewards``.

    The arm is model and step, and the file's label where several have the same. Without names of ``rewards`` the one in
    `MAIN` is compared, or all.

    Raises:
        BadInputError: a file, a record or a name of a reward cannot be used.
    """
    read = {label: read_rollouts(path, form) for label, path in files.items()}
    texts = [(label, name, one) for label, (name, found) in read.items() for one in found]
    places = {(label, one.model, one.step) for label, _, one in texts}
    is_shared = len({place[1:] for place in places}) < len(places)
    known = {reward for *_, one in texts for reward in one.rewards}
    if lacking := {*rewards} - known:
        raise BadInputError(f"--reward {lacking.pop()}: there are {', '.join(sorted(known))}")
    lines = []
    for label, name, one in texts:
        step = None if one.step is None else f"step {one.step}"
        arm = " ".join(filter(None, (label if is_shared else None, one.model, step))) or label
        names = rewards or ([MAIN[name]] if MAIN.get(name) in one.rewards else one.rewards)
        ended = FinishReason.LENGTH if one.truncated else FinishReason.STOP
        line = {
            **find(one),
            "id": None,
            "text": one.text,
            "model": one.model,
            "step": one.step,
            "finish_reason": FinishReason.ERROR if one.text is None else ended,
            "arm": arm,
            "source": one.where,
            "rewards": {own: one.rewards[own] for own in names if own in one.rewards},
        }
        parse_line(line, where=one.where)
        lines.append(line)
    return sorted(lines, key=lambda line: line["step"] or 0)


def compare_rollouts(
    lines: Sequence[Row],
    folder: pathlib.Path,
    params: Params,
    *,
    threshold: float,
    workers: int = 1,
    on_progress: OnProgress | None = None,
) -> list[Row]:
    """Judge the lines; write paths, disagreements, metrics.json and report.html; return the disagreements.

    A reward above ``threshold`` says that a text is right.

    Raises:
        BadInputError: a problem has two golds, or no text of an arm could be judged.
    """
    arms: dict[str, list[Row]] = {}
    of: dict[str, list[Row]] = {}
    for line in lines:
        arms.setdefault(line["arm"], []).append(line)
        of.setdefault(line["problem_id"], []).append(line)
    for arm, own in arms.items() if len(arms) > 1 else ():
        write_json_lines(folder / "paths" / f"{_NO_NAME.sub('-', arm)}.jsonl", own)
    write_json_lines(folder / PATHS_NAME, lines)
    source, verify = folder / PATHS_NAME, params.verify
    groups = groups_from_lines(source, verify, workers=workers, on_progress=on_progress)
    compared: list[Row] = []
    by_arm: dict[str, list[Group]] = {arm: [] for arm in arms}
    for group in groups:
        sources = [of[group.problem.id][one.path.index] for one in group.members]
        judged = [*zip(sources, group.members, strict=True)]
        for arm in dict.fromkeys(line["arm"] for line in sources):
            members = [member for line, member in judged if line["arm"] == arm]
            by_arm[arm].append(replace(group, members=members))
        for line, member in judged:
            row = {**line, "id": member.path.id, **member.verdict.row()}
            said = {name: value > threshold for name, value in line["rewards"].items()}
            compared += [{**row, "reward": name, "said": one} for name, one in said.items()]
    differing = [one for one in compared if one["lenient"] not in {None, one["said"]}]
    write_json_lines(folder / DISAGREEMENTS_NAME, differing)
    _write_report(folder, by_arm, compared, differing, params)
    return differing


def _write_report(
    folder: pathlib.Path,
    by_arm: Mapping[str, Sequence[Group]],
    compared: Sequence[Row],
    differing: Sequence[Row],
    params: Params,
) -> None:
    evaluate = params.evaluate.model_copy(update={"ks": (1,)})
    scores = []
    for arm, groups in by_arm.items():
        found = score_policy(Arm(base="rollouts", settings={"of": arm}), groups, evaluate)
        # The files do not state tokens, and one path is its own majority.
        own = [replace(one, costs={}) for one in found.series if one.measure != "maj@1"]
        scores.append(replace(found, series=tuple(own)))
    first, *others = scores
    contrasts = [
        replace(one, family=one.candidate.subset if len(others) > 1 else None)
        for candidate in (*others[-1:], *others[:-1])
        for one in policy_contrasts(candidate, first, evaluate.ks)[:-1]
    ]
    series = [one for found in scores for one in found.series]
    counts = {arm: found.counts for arm, found in zip(by_arm, scores, strict=True)}
    study = make_study(
        "imported",
        series,
        # The prompts may ask for another form of the answer than ours.
        sorted(contrasts, key=lambda one: one.candidate.subset != LENIENT),
        evaluate=evaluate,
        seed=params.seed,
        provenance={},
        left_out={f"{arm}: without a verdict": one.left_out for arm, one in counts.items()},
        compute={
            "agreement": [*_agreement(compared, evaluate)],
            "policies": {arm: asdict(one) for arm, one in counts.items()},
        },
    )
    agreed = [
        f"{one['reward']} agrees with our verdict on {score(Interval(**one['agreement']))} of the texts."
        for one in study.compute["agreement"]
    ]
    paired = claims_of(study) if study.differences else ["No two arms share a problem."]
    study = study.with_claims([*agreed, *(paired if others else ())])
    problems = {one.problem.id: one.problem for groups in by_arm.values() for one in groups}
    write_study(folder, study, series, problems.values())
    examples = [_example(one) for one in differing[: params.report.num_examples]]
    tables = agreement_tables(study)
    shown = page.Page(title="Rollouts of another tool", tables=tables, examples=examples)
    page.write_page(folder / page.REPORT_NAME, study, shown)


def _agreement(compared: Sequence[Row], evaluate: EvaluateParams) -> Iterator[Row]:
    counts = Counter((one["reward"], one["said"], one["lenient"]) for one in compared)
    for name in dict.fromkeys(one["reward"] for one in compared):
        cells = {cell: counts[name, *values] for cell, values in _CELLS.items()}
        judged, agreed = sum(cells.values()), cells["both right"] + cells["both wrong"]
        unjudged = counts[name, True, None] + counts[name, False, None]
        if judged:
            interval = wilson_interval(agreed, judged, evaluate).row()
            yield {"reward": name, **cells, "not judged": unjudged, "agreement": interval}


def agreement_tables(study: Study) -> list[Table]:
    """Rewards against lenient verdicts, from the study of imported rollouts."""
    counted = ("reward", *_CELLS, "not judged")
    rows = tuple(
        (*(str(one[name]) for name in counted), score(Interval(**one["agreement"])))
        for one in study.compute["agreement"]
    )
    caption = "Texts by reward and lenient verdict, with Wilson's intervals, which take texts as independent"
    return [Table(caption=caption, columns=(*counted, "agreement"), rows=rows)]


def _example(one: Row) -> page.Example:
    value, outcome = one["rewards"][one["reward"]], "correct" if one["lenient"] else "wrong"
    facts = (f"{one['reward']} {value:g}", f"answer {one['extracted']}", one["source"])
    about = tuple(map(visible, facts))
    text = page.ShownText(text=visible(one["text"] or ""), outcome=outcome, about=about)
    gold = visible(str(one.get("gold", one.get("reference", ""))))
    shown = [page.ShownTexts(title=one["arm"], texts=[text])]
    return page.Example(id=one["id"], question=visible(one["question"]), gold=gold, groups=shown)
