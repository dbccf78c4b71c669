"""What the control is, in sentences: how it was trained, what it took, what else limits the claim."""

from collections.abc import Iterator

from pipeline_lib.reporting.run_compute import ComputeSpent, Spent
from pipeline_lib.reporting.wording import count, percent
from pipeline_lib.training.control_report import ControlReport

_LEAST_SHARE = 0.95
"""Of the loop's seconds: with less the control is not called equal."""


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
        f"The control is the base after more supervised steps on {report.train_problems} worked "
        f"problems ({report.train_rows} solutions; {report.steps} steps in schedules of three "
        f"lengths), {_kept(report)}."
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
        return f"More supervised steps do not lower the base's own loss on these ({before:.3f})."
    lowered = f"more supervised steps lower this loss from {before:.3f} to {after:.3f}."
    return (
        lowered.capitalize() if report.base_is_given else f"The base was stopped early: {lowered}"
    )


def _compute_sentences(spent: ComputeSpent) -> Iterator[str]:
    loop, control = spent.loop, spent.control
    assert control is not None
    unit = "GPU" if loop.gpu_seconds else "CPU"
    ours, theirs = _seconds(control, unit), _seconds(loop, unit)
    yield (
        f"Control and loop took {ours:.0f} and {theirs:.0f} {unit} seconds; they were trained on "
        f"{count(control.trained_tokens)} and {count(loop.trained_tokens)} tokens, and the loop drew "
        f"{count(loop.drawn_tokens)} besides."
    )


def control_name(report: ControlReport, spent: ComputeSpent) -> str:
    """What the loop is compared with, as titles call it."""
    if report.is_base:
        return "the base, without a control"
    assert spent.control is not None
    unit = "GPU" if spent.loop.gpu_seconds else "CPU"
    loop = _seconds(spent.loop, unit)
    share = _seconds(spent.control, unit) / loop if loop else 1.0
    if share < _LEAST_SHARE:
        return f"a control of {percent(share)} of its {unit} seconds"
    return "an equal-compute control"


def _seconds(spent: Spent, unit: str) -> float:
    return spent.gpu_seconds if unit == "GPU" else spent.cpu_seconds
