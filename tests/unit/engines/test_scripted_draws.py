"""The scripted clock, and draws on it."""

import asyncio

import pytest

from benchmarks.lib.scripted import ScriptedModel
from benchmarks.lib.scripted_draws import ScriptedDraws, run_on_scripted_clock
from pipeline_lib.engines.chat_model import Decoding


def test_the_clock_jumps_to_the_next_timer():
    """Sleeps of 0, 1, ... 4,999 s at once take 4,999 s on the clock, and no time of their own."""

    async def sleep_all():
        async with asyncio.TaskGroup() as group:
            for seconds in range(5000):
                group.create_task(asyncio.sleep(seconds))

    assert run_on_scripted_clock(sleep_all()) == (None, 4999.0)


def test_a_deadline_is_on_the_clock():
    """A limit of 5 s ends a sleep of an hour after 5 s."""

    async def limited():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(3600)

    assert run_on_scripted_clock(limited()) == (None, 5.0)


def test_a_wait_without_a_timer_is_an_error():
    """A program whose tasks all wait for each other would otherwise hang for ever."""
    with pytest.raises(RuntimeError, match="none for a timer"):
        run_on_scripted_clock(asyncio.Event().wait())


@pytest.mark.parametrize("names_stops", [True, False])
def test_the_script_answers_after_its_delay(names_stops):
    """The text before the stop string after 3 s; a script that does not name stops leaves it out."""
    draws = ScriptedDraws(
        model=ScriptedModel(answer=lambda prompt, seed: f"{prompt} {seed} stop here"),
        delay_s=lambda _prompt, seed: float(seed),
        names_stops=names_stops,
    )
    drawn, seconds = run_on_scripted_clock(draws.draw("a", 3, Decoding(stop=(" stop",))))
    assert (drawn.text, seconds) == ("a 3", 3.0)
    assert drawn.stopped_by == (" stop" if names_stops else None)
