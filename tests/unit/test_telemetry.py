"""Events of a run: complete lines, in order, and none for skipped work."""

import pathlib
from concurrent.futures import ThreadPoolExecutor

from pipeline_lib.telemetry import (
    EVENTS_FILE,
    count_retried,
    events_size,
    read_events,
    read_new_events,
    record_event,
    record_work,
    stage_peaks,
    stage_seconds,
    timed_stage,
    union_seconds,
)


def test_events_come_back_in_order(tmp_path: pathlib.Path):
    """With their fields, all or those since an earlier size; none without a file, and none of a cut line."""
    assert (read_events(tmp_path), events_size(tmp_path)) == ([], 0)
    record_event(tmp_path, "work", number=1)
    before = events_size(tmp_path)
    record_event(tmp_path, "work", number=2)
    with (tmp_path / EVENTS_FILE).open("ab") as stream:
        stream.write(b'{"event": "wo')
    assert [event["number"] for event in read_events(tmp_path)] == [1, 2]
    assert [event["number"] for event in read_events(tmp_path, offset=before)] == [2]


def test_concurrent_writers_do_not_interleave(tmp_path: pathlib.Path):
    """4 writers with 25 long events each leave 100 complete lines."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: record_event(tmp_path, "work", n=n, pad="x" * 3000), range(100)))
    assert sorted(event["n"] for event in read_events(tmp_path)) == list(range(100))


def test_a_stage_that_worked_is_timed(tmp_path: pathlib.Path):
    """One that was found done is not: earlier work, or work of another stage, is not its own."""
    with timed_stage(tmp_path, "sample", draw=1):
        record_work(tmp_path, "sample", done=1, total=1)
    with timed_stage(tmp_path, "sample"):
        record_work(tmp_path, "verify", done=1, total=1)
    _, stage, work = read_events(tmp_path)
    assert (stage["event"], stage["stage"], stage["draw"]) == ("stage", "sample", 1)
    assert 0 <= stage["seconds"] < 600
    assert work["event"] == "work"


def test_stage_seconds_take_the_last_of_each_draw():
    """sample: the last event of draw 1 has 3 s (not 9), draw 2 has 4 s: 7 s; report has no draw: 1 s."""
    events = [
        {"event": "stage", "stage": "sample", "draw": 1, "seconds": 9},
        {"event": "stage", "stage": "sample", "draw": 2, "seconds": 4},
        {"event": "work", "stage": "sample", "seconds": 50},
        {"event": "stage", "stage": "sample", "draw": 1, "seconds": 3},
        {"event": "stage", "stage": "report", "seconds": 1},
    ]
    assert stage_seconds(events) == {"sample": 7.0, "report": 1.0}


def begin(number, *, key="k", label="draw"):
    return {"event": "begin", "stage": "sample", "label": label, "key": key, "done": number}


def work(number, *, key="k", label="draw"):
    return {**begin(number, key=key, label=label), "event": "work"}


def test_peak_memory_is_of_the_work_of_a_stage(tmp_path: pathlib.Path):
    """64 MiB that are freed before the next stage count for the first alone."""
    record_work(tmp_path, "before", done=1, total=1)
    held = b"x" * (64 << 20)
    del held
    record_work(tmp_path, "sample", done=1, total=1)
    record_work(tmp_path, "verify", done=1, total=1)
    peaks = stage_peaks(read_events(tmp_path))
    assert peaks["sample"] >= peaks["verify"] + 60
    assert peaks["verify"] > 0


def test_attempts_without_a_result_are_counted():
    """Shard 1 of draw a takes 3 attempts: 2; shard 2 one, and shard 1 of draw b one: none. Shard 4 was
    deleted after its end and drawn again: none. Shard 5 never ended. A training is begun twice: 1.
    """
    events = [
        *(begin(1, label="a"), begin(1, label="a"), begin(1, label="a"), work(1, label="a")),
        *(begin(2, label="a"), work(2, label="a"), begin(1, label="b"), work(1, label="b")),
        *(begin(4), work(4), begin(4), work(4), begin(5), begin(5)),
        *(begin(0, key="t", label="train"), work(1, key="t", label="train")),
        *(begin(0, key="t", label="train"), work(2, key="t", label="train")),
    ]
    assert count_retried(events) == 3
    assert count_retried([event for event in events if event["event"] == "work"]) == 0


def test_a_line_being_written_is_read_once_it_is_whole(tmp_path):
    """A follower gets every event exactly once, also if it reads while a line is partly written."""
    record_work(tmp_path, "sample", done=1, total=2)
    first, offset = read_new_events(tmp_path, 0)
    target = tmp_path / EVENTS_FILE
    with target.open("ab") as stream:
        stream.write(b'{"event": "work", "stage": "sam')
    assert read_new_events(tmp_path, offset) == ([], offset)
    with target.open("ab") as stream:
        stream.write(b'ple", "done": 2, "total": 2}\n')
    second, end = read_new_events(tmp_path, offset)
    assert [event["done"] for event in first + second] == [1, 2]
    assert read_new_events(tmp_path, end) == ([], end)


def test_the_union_of_intervals_counts_each_second_once():
    """One inside another, one that overlaps, one apart; in any order."""
    assert union_seconds([(6.0, 7.5), (0.0, 4.0), (1.0, 2.0), (3.0, 5.0)]) == 6.5
    assert union_seconds([]) == 0
