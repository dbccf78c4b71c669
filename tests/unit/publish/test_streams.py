"""The bridge in this process, on a cluster that speaks Kafka's protocol."""

import json

import pytest

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.paths import CodeLimits, VerifyParams
from pipeline_lib.publish import streams
from pipeline_lib.verify.lines import verify_lines
from tests.answers import ANSWERS
from tests.unit.publish.topics import bridged

SLOWEST_OF_LIMIT = 3.5
"""Wall-clock time of a program that computes, in its limit."""
LINES = [
    *(row for row in ANSWERS if row["kind"] != "code"),
    {"id": "n1", "kind": "math", "gold": "5", "text": None},
    {"id": "e1", "kind": "math", "gold": "5", "text": "", "finish_reason": "error"},
    {"id": "v1", "kind": "math", "gold": "", "text": "\\boxed{6}"},
]


def test_verdicts_and_refusals(topics, tmp_path):
    """Each line gets the verdict of `reasonloop verify`, keyed by its id; what is no line is refused
    with the reason; failures of the verifier are verdicts."""
    source, target = topics.make("in"), topics.make("out")
    bad = [b"{", b"[]", b"\xff", None, b'{"kind": "chess", "text": ""}', b'{"gold": "5"}']
    huge = {"id": "\u00e9" * 9_000, "gold": "5", "text": "\\boxed{5}"}
    topics.send(source, LINES)
    topics.send(source, [*bad, huge], key="the-key")
    topics.send(source, [{"gold": "5", "text": "\\boxed{5}"}], key="only-a-key")
    topics.send(source, [{"gold": "5", "text": "\\boxed{5}"}])
    refused, total = f"{source}.refused", len(LINES) + len(bad) + 3
    counts = bridged(
        topics,
        source,
        target,
        until=lambda: topics.count(target) + topics.count(refused) == total,
        # The verdict on `huge` has 72 kB, and `huge` itself 54 kB.
        **{"message.max.bytes": "10000"},
    )
    assert counts == (len(LINES) + 2, len(bad) + 1)

    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    verify_lines(tmp_path / "in.jsonl", tmp_path / "out.jsonl", VerifyParams())
    expected = {}
    for text in (tmp_path / "out.jsonl").read_text().splitlines():
        row = json.loads(text)
        del row["seconds"]
        expected[row["id"]] = row
    sent = {json.loads(m.value())["id"]: m for m in topics.read(target)}
    assert {name: json.loads(sent[name].value()) for name in expected} == expected
    assert all(message.key().decode() == name for name, message in sent.items())
    assert all(float(dict(message.headers())["seconds"]) >= 0 for message in sent.values())
    assert expected["e1"]["status"] == expected["v1"]["status"] == "verifier_error"
    (from_position,) = sent.keys() - expected.keys() - {"only-a-key"}
    assert from_position.startswith(f"{source}/")

    found = {m.value(): dict(m.headers())["reason"].decode() for m in topics.read(refused)}
    reasons = ["not JSON", "got list", "not JSON", "no value", "kind='chess'", "text: Field"]
    for value, part in zip(bad, reasons, strict=True):
        # A message without a value and a value that is too large are both sent without one.
        assert value is None or part in found[value]
    assert "more than allowed" in found[None] or "no value" in found[None]
    sources = {dict(m.headers())["source"] for m in topics.read(refused)}
    assert len(sources) == len(bad) + 1
    assert topics.committed(source, topics.token) == total


def test_what_no_bridge_can_start_on(topics, monkeypatch):
    """A missing topic, one topic for both, and an unknown setting are bad input; silence is not."""
    source = topics.make("in")
    monkeypatch.setattr(streams, "_TOPIC_S", 0.0)
    monkeypatch.setattr(streams, "CONNECT_S", 0.5)
    never = {"until": lambda: False}
    with pytest.raises(BadInputError, match=r"topic missing on .* create it"):
        bridged(topics, "missing", topics.make("out"), **never)
    with pytest.raises(BadInputError, match="name another topic"):
        bridged(topics, source, source, **never)
    with pytest.raises(BadInputError, match="name another topic"):
        bridged(topics, source, f"{source}.refused", **never)
    with pytest.raises(BadInputError, match='"nonsense"; correct --config'):
        bridged(topics, source, "out", **never, nonsense="1")
    topics.brokers = "127.0.0.1:1"
    with pytest.raises(
        ReasonloopError, match=r"no Kafka broker answers at 127\.0\.0\.1:1"
    ) as raised:
        bridged(topics, source, "out", **never)
    assert not isinstance(raised.value, BadInputError)


def test_a_member_stays_while_it_judges():
    """A chunk of programs that all reach their time limit, judged one after another, ends before the next poll."""
    slowest_s = streams.CHUNK_MESSAGES * SLOWEST_OF_LIMIT * CodeLimits().timeout_s
    assert 1000 * slowest_s < streams._DEFAULTS["max.poll.interval.ms"]


def test_settings_of_a_file(tmp_path):
    """NAME=VALUE lines with comments; a bad line is named without its content."""
    path = tmp_path / "client.properties"
    path.write_text("# TLS\nsecurity.protocol = SASL_SSL\n\nsasl.password=a=b#c\n", "utf-8")
    assert streams.read_settings(path) == {
        "security.protocol": "SASL_SSL",
        "sasl.password": "a=b#c",
    }
    path.write_text("a=1\nsecret\n", "utf-8")
    with pytest.raises(BadInputError, match=r"client.properties:2: expected NAME=VALUE$"):
        streams.read_settings(path)
    with pytest.raises(BadInputError, match="cannot be read"):
        streams.read_settings(tmp_path / "absent")


def test_passwords_are_not_shown(topics):
    """The cluster's text form leaves the settings out."""
    assert "secret" not in repr(topics.cluster(**{"sasl.password": "secret"}))


def test_a_refused_delivery_is_raised(topics):
    """A broker that does not take a message ends the command instead of losing it."""
    topic = topics.make("paths")
    sender = topics.cluster(**{"delivery.timeout.ms": "1", "linger.ms": "0"}).sender()
    sender.send(topic, key=None, value=b"", headers=[])
    with pytest.raises(ReasonloopError, match=f"topic {topic} did not accept a message"):
        sender.flush()
