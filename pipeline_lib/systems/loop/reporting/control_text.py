"""Sentences about the control: its training, its compute, and other limits of the claim."""

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline_lib.study.pages.wording import count, percent
from pipeline_lib.systems.loop.finished_run import FinishedRun
from pipeline_lib.train.control_report import ControlReport

_OFF_POLICY = (
    "Off-policy: the training drew no paths of its own. It learned from the stored paths of each round with their "
    "recorded log-probabilities (train.rollouts=stored)."
)
_LEAST_SHARE = 0.95
"""Share of the loop's seconds below which the control is not called equal-compute."""


def limits_of_claim(run: FinishedRun) -> list[str]:
    """Sentences about trainings that saw held-out problems, the control, and what both sets share."""
    compute, problems = run.study.compute, run.preparation
    shared = (
        shared_sentence("numbers", problems["unseen_number_sets"], run.num_problems),
        shared_sentence("template", problems.get("unseen_templates"), run.num_problems),
    )
    is_stored = run.params.train.rollouts == "stored"
    return [
        *run.trained_on,
        *([_OFF_POLICY] if is_stored else []),
        *(_sentences(run.control, compute) if run.control else ()),
        *filter(None, shared),
    ]


def shared_sentence(what: str, unseen: int | None, problems: int) -> str | None:
    """Sentence about the numbers or the template that held-out and training problems share."""
    if unseen is None:
        return None
    if unseen == problems:
        return f"No training problem has the {what} of any of the {problems} held-out problems."
    found = f"{problems - unseen} of the {problems} held-out problems"
    if what == "numbers":
        return f"The numbers of {found} occur in training problems, with other targets."
    return (
        f"{found} have a template of training problems, with other numbers: what is learned from one story "
        "counts in its variants."
    )


def _sentences(report: ControlReport, compute: Mapping[str, Any]) -> Iterator[str]:
    if report.is_base:
        yield (
            "The data set has no worked solutions for training without the loop, so the control is "
            "the base policy."
        )
        return
    yield (
        f"The control is the base after more supervised steps on {report.train_problems} worked "
        f"problems ({report.train_rows} solutions; {report.steps} steps over schedules of three "
        f"lengths), {_checkpoint(report)}."
    )
    yield _base_sentence(report)
    yield from _compute_sentences(compute)


def _checkpoint(report: ControlReport) -> str:
    if report.kept_phase is None:
        return "none of which lowered the validation loss, so the base is kept"
    return (
        f"at step {report.kept_step} of {report.kept_phase}, where its validation loss on "
        f"{report.validation_problems} worked problems is lowest"
    )


def _base_sentence(report: ControlReport) -> str:
    before, after = report.base_validation_loss, report.validation_loss
    if report.kept_phase is None:
        return f"More supervised steps do not lower the base's validation loss ({before:.3f})."
    lowered = f"more supervised steps lower this loss from {before:.3f} to {after:.3f}."
    return (
        lowered.capitalize() if report.base_is_given else f"The base was stopped early: {lowered}"
    )


def _compute_sentences(compute: Mapping[str, Any]) -> Iterator[str]:
    loop, control = compute["loop"], compute["control"]
    unit = "GPU" if loop["gpu_seconds"] else "CPU"
    loop_s, control_s = (spent[f"{unit.lower()}_seconds"] for spent in (loop, control))
    known = control_s is not None and loop_s is not None
    took = f"took {control_s:.0f} and {loop_s:.0f} {unit} seconds and " if known else ""
    yield (
        f"Control and loop {took}trained on {count(control['trained_tokens'])} and "
        f"{count(loop['trained_tokens'])} tokens; the loop also sampled {count(loop['drawn_tokens'])} tokens."
    )
    if not known:
        yield "Their seconds are unknown, since part of the work was done in another workspace."
    elif loop_s and control_s / loop_s < _LEAST_SHARE:
        yield f"So this control is not of equal compute: it had {percent(control_s / loop_s)} of the {unit} seconds."
