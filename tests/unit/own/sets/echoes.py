"""A task set of verifiers that asks for a word, in a message or in several, and rewards it in two ways."""

import verifiers.v1 as vf

__all__ = ["EchoesTaskset"]


class EchoesData(vf.TaskData):
    word: str = ""


class EchoesTask(vf.Task[EchoesData]):
    @vf.reward(weight=3.0)
    async def says_it(self, trace: vf.Trace) -> float:
        if trace.last_reply == "raise":
            raise RuntimeError("the reward broke")
        return float(self.data.word in trace.last_reply)

    @vf.reward(weight=1.0)
    async def says_nothing_else(self, trace: vf.Trace) -> float:
        assert trace.messages[0].role == "system"
        return float(trace.last_reply == self.data.word)

    @vf.reward(weight=-1.0)
    async def is_long(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply) > 20)


class EchoesConfig(vf.TasksetConfig):
    words: int = 6


class EchoesTaskset(vf.Taskset[EchoesTask, EchoesConfig]):
    def load(self):
        for number in range(self.config.words):
            word = "abcdef"[number % 6] * (1 + number // 6)
            asked = vf.UserMessage(content=f"Say {word}.")
            earlier = [vf.UserMessage(content="Hello."), vf.AssistantMessage(content="Hello.")]
            prompt = [*earlier, asked] if number % 2 else asked.content
            data = EchoesData(prompt=prompt, system_prompt="Be brief.", word=word)
            yield EchoesTask(data, self.config.task)
