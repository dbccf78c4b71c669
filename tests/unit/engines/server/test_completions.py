"""/v1/completions returns to the OpenAI client what the engine draws in process."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from pipeline_lib.engines.chat_model import Decoding, Request

MODEL = "models/policy"
GREEDY = {"model": MODEL, "temperature": 0, "max_tokens": 24}


def test_greedy_equals_the_engine_in_process(client, engine, prompts):
    """Text, finish reason and token counts of twenty prompts are those of `complete`."""
    requests = [Request(prompt=prompt, seeds=[0]) for prompt in prompts]
    expected = engine.complete(requests, Decoding(temperature=0, max_new_tokens=24))
    for prompt, [wanted] in zip(prompts, expected, strict=True):
        answer = client.completions.create(prompt=prompt, **GREEDY)
        [choice] = answer.choices
        assert choice.text == wanted.text
        assert choice.finish_reason == wanted.finish_reason.value
        assert answer.usage.prompt_tokens == wanted.prompt_tokens
        assert answer.usage.completion_tokens == wanted.completion_tokens
        assert answer.usage.total_tokens == wanted.prompt_tokens + wanted.completion_tokens


def test_seeds_are_those_of_the_engine(client, engine, prompts):
    """n=3 from seed 5 are the paths of seeds 5, 6 and 7; each alone is the same path again."""
    [expected] = engine.complete(
        [Request(prompt=prompts[0], seeds=[5, 6, 7])], Decoding(max_new_tokens=24)
    )
    options = {"model": MODEL, "prompt": prompts[0], "max_tokens": 24}
    together = client.completions.create(n=3, seed=5, **options)
    assert [choice.text for choice in together.choices] == [path.text for path in expected]
    assert [choice.index for choice in together.choices] == [0, 1, 2]
    alone = [client.completions.create(seed=5 + i, **options).choices[0].text for i in range(3)]
    assert alone == [path.text for path in expected]
    assert together.usage.completion_tokens == sum(path.completion_tokens for path in expected)


def test_without_a_seed_paths_differ(client, prompts):
    """The two equal prompts do not share their four paths, which chance alone repeats at most once or twice."""
    answer = client.completions.create(
        model=MODEL, prompt=[prompts[0]] * 2, n=4, max_tokens=24, temperature=1
    )
    assert len({choice.text for choice in answer.choices}) > 4


def test_prompts_have_four_forms(client, engine, prompts):
    """A text, texts, token ids and lists of them; choices are in the order of the prompts."""
    first, second = prompts[:2]
    ids = [engine.tokenizer.encode(prompt, add_special_tokens=False) for prompt in (first, second)]
    one = client.completions.create(prompt=first, **GREEDY).choices[0].text
    two = client.completions.create(prompt=second, **GREEDY).choices[0].text
    for shape, expected in (
        ([first, second], [one, two]),
        (ids[1], [two]),
        ([ids[1], ids[0]], [two, one]),
    ):
        choices = client.completions.create(prompt=shape, **GREEDY).choices
        assert [choice.text for choice in choices] == expected
        assert [choice.index for choice in choices] == list(range(len(expected)))


def test_equal_prompts_are_computed_once(client, prompts):
    """The second of two equal prompts is fully cached; a prompt counts once for its three paths."""
    answer = client.completions.create(prompt=[prompts[0]] * 2, n=3, seed=1, **GREEDY)
    half = answer.usage.prompt_tokens // 2
    assert answer.usage.prompt_tokens_details.cached_tokens == half > 0
    alone = client.completions.create(prompt=prompts[0], **GREEDY)
    assert alone.usage.prompt_tokens == half
    assert alone.usage.prompt_tokens_details.cached_tokens == 0


@pytest.mark.parametrize("several", [False, True])
def test_stop_strings_end_a_text_before_them(client, engine, prompts, several):
    """As in process: the text ends before the stop string, with finish reason ``stop``."""
    whole = client.completions.create(prompt=prompts[0], seed=3, **GREEDY).choices[0].text
    stop = whole[len(whole) // 2 :][:2]
    stops = [stop, "never drawn"] if several else stop
    answer = client.completions.create(prompt=prompts[0], stop=stops, **GREEDY)
    [[expected]] = engine.complete(
        [Request(prompt=prompts[0], seeds=[0])],
        Decoding(temperature=0, max_new_tokens=24, stop=(stop,)),
    )
    [choice] = answer.choices
    assert choice.text == expected.text == whole[: whole.find(stop)]
    assert choice.finish_reason == "stop"
    assert choice.model_extra["stop_reason"] == expected.stopped_by == stop
    assert answer.usage.completion_tokens == expected.completion_tokens < 24


def test_tokens_and_their_logprobs_are_those_of_the_engine(client, engine, prompts):
    """One value per token; with vLLM's field ``return_token_ids``, choices have the drawn tokens."""
    [[expected]] = engine.complete(
        [Request(prompt=prompts[1], seeds=[9])], Decoding(max_new_tokens=24)
    )
    [choice] = client.completions.create(
        model=MODEL,
        prompt=prompts[1],
        seed=9,
        max_tokens=24,
        logprobs=1,
        extra_body={"return_token_ids": True, "add_special_tokens": False},
    ).choices
    assert tuple(choice.token_ids) == expected.token_ids
    found = choice.logprobs
    assert found.token_logprobs == pytest.approx(expected.token_logprobs, abs=1e-5)
    assert found.tokens == [engine.tokenizer.decode([token]) for token in expected.token_ids]
    assert found.top_logprobs == [
        {name: value} for name, value in zip(found.tokens, found.token_logprobs, strict=True)
    ]


@pytest.mark.parametrize("options", [{}, {"stop": ["1", "+5"]}, {"logprobs": 0}])
def test_a_stream_adds_up_to_the_response(client, prompts, options):
    """For two prompts of two paths each: the same texts, reasons, log-probabilities and usage."""
    asked = {"model": MODEL, "prompt": prompts[:2], "n": 2, "seed": 4, "max_tokens": 40, **options}
    whole = client.completions.create(**asked)
    texts, reasons, values = [""] * 4, [None] * 4, [[], [], [], []]
    *chunks, last = client.completions.create(
        stream=True, stream_options={"include_usage": True}, **asked
    )
    for chunk in chunks:
        [choice] = chunk.choices
        assert reasons[choice.index] is None
        assert chunk.usage is None
        texts[choice.index] += choice.text
        reasons[choice.index] = choice.finish_reason
        values[choice.index] += choice.logprobs.token_logprobs if choice.logprobs else []
    assert texts == [choice.text for choice in whole.choices]
    assert reasons == [choice.finish_reason for choice in whole.choices]
    assert last.choices == []
    assert last.usage == whole.usage
    for choice, value in zip(whole.choices, values, strict=True):
        expected = choice.logprobs.token_logprobs if choice.logprobs else []
        assert value == pytest.approx(expected, abs=1e-5)


def test_a_stream_sends_text_while_it_is_drawn(client, prompts):
    """Forty tokens are sent in more than ten chunks, all but the last with text."""
    chunks = list(
        client.completions.create(
            model=MODEL, prompt=prompts[0], seed=4, max_tokens=40, stream=True
        )
    )
    assert len(chunks) > 10
    assert all(chunk.choices[0].text for chunk in chunks[:-1])
    assert chunks[-1].choices[0].finish_reason


def _texts(stream: Iterator[openai.types.Completion]) -> str:
    return "".join(chunk.choices[0].text for chunk in stream)


def test_streams_equal_concurrent_whole_responses(client, prompts):
    """Sixteen streams and sixteen whole responses at once are pairwise equal."""
    asked = [{"prompt": prompts[i], "seed": i, "model": MODEL, "max_tokens": 30} for i in range(16)]
    with ThreadPoolExecutor(32) as pool:
        streams = pool.map(lambda one: _texts(client.completions.create(stream=True, **one)), asked)
        wholes = pool.map(lambda one: client.completions.create(**one).choices[0].text, asked)
        assert list(streams) == list(wholes)
