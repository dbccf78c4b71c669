"""What the control is, in sentences: how it was trained, what it took, what else limits the claim."""

from collections.abc import Iterator

from pipeline_lib.reporting.compute_spent import ComputeSpent
from pipeline_lib.reporting.wording import count, percent
from pipeline_lib.training.control_report import ControlReport

_LEVEL = 0.95
"""Below this share of the loop's seconds the control is not called equal."""


def control_sentences(report: ControlReport, spent: ComputeSpent) -> tuple[str, ...]:
    """For a run that has a control."""
    return tuple(_sentences(report, spent))


def number_set_sentence(unseen: int | None, problems: int) -> str | None:
    """What the held-out Countdown problems share with those that were trained on."""
    if unseen is None:
        return None
    if unseen == problems:
        return f"No training problem has the numbers of any of the {problems} held-out problems."
    return (
        f"The numbers of {problems - unseen} of the {problems} held-out problems occur in training "
        "problems, with other targets."
    )


def _sentences(report: ControlReport, spent: ComputeSpent) -> Iterator[str]:
    if report.is_base:
        yield (
            "The data has no worked solutions to train on without the loop, so the control is the "
            "base itself."
        )
        return
    yield (
        f"The control is the base after further supervised steps on its own "
        f"{report.train_problems} worked problems ({report.train_rows} solutions; {report.steps} "
        f"steps in schedules of three lengths), {_kept(report)}."
    )
    yield _base_sentence(report)
    yield from _compute_sentences(spent)


def _kept(report: ControlReport) -> str:
    if report.kept_phase is None:
        return "none of which lowered its loss on worked problems held apart, so the base is kept"
    return (
        f"at step {report.kept_step} of {report.kept_phase}, where its loss on "
        f"{report.validation_problems} worked problems held apart is lowest"
    )


def _base_sentence(report: ControlReport) -> str:
    before, after = report.base_validation_loss, report.validation_loss
    if report.kept_phase is None:
        return f"The base was not stopped early: further steps only raise this loss ({before:.3f})."
    return (
        f"The base was stopped early: more of its own training lowers this loss from {before:.3f} "
        f"to {after:.3f}."
    )


def _compute_sentences(spent: ComputeSpent) -> Iterator[str]:
    loop, control = spent.loop, spent.control
    assert control is not None
    unit, ours, theirs = (
        ("GPU", control.gpu_seconds, loop.gpu_seconds)
        if loop.gpu_seconds
        else ("CPU", control.cpu_seconds, loop.cpu_seconds)
    )
    yield (
        f"Control and loop took {ours:.0f} and {theirs:.0f} {unit} seconds; they were trained on "
        f"{count(control.trained_tokens)} and {count(loop.trained_tokens)} tokens, and the loop drew "
        f"{count(loop.drawn_tokens)} besides."
    )
    if theirs and ours < _LEVEL * theirs:
        yield f"The control had only {percent(ours / theirs)} of the loop's {unit} seconds."
