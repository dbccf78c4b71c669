"""A task set of verifiers whose policy is asked twice, by a harness without a program of its own."""

import verifiers.v1 as vf
from openai import AsyncOpenAI

__all__ = ["TwoTurnsEnv", "TwoTurnsHarness", "TwoTurnsTaskset"]


class TwoTurnsTask(vf.Task[vf.TaskData]):
    @vf.reward(weight=1.0)
    async def is_even(self, trace: vf.Trace) -> float:
        """The length of the last of two replies, so that a policy of random weights is right at times."""
        return float(len(trace.assistant_messages) == 2 and len(trace.last_reply) % 2 == 0)


class TwoTurnsTaskset(vf.Taskset[TwoTurnsTask, vf.TasksetConfig]):
    def load(self):
        for digit in "2367":
            data = vf.TaskData(prompt=f"{digit},7=42", system_prompt="2*3=6")
            yield TwoTurnsTask(data, self.config.task)


class TwoTurnsHarness(vf.Harness[vf.HarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, *given):
        _, _, endpoint, secret, _, data = given
        system, prompt = self.resolve_prompt(data)
        asked = [vf.UserMessage(content=prompt)] if isinstance(prompt, str) else prompt
        messages = [{"role": "system", "content": system}] if system else []
        messages += [{"role": one.role, "content": one.content} for one in asked]
        client = AsyncOpenAI(base_url=endpoint, api_key=secret)
        await client.chat.completions.create(model=ctx.model, messages=messages)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class TwoTurnsConfig(vf.EnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig()


class TwoTurnsEnv(vf.Env[TwoTurnsConfig]):
    async def run(self, task, agents):
        async with agents.agent.interaction(task) as talk:
            await talk.turn()
            await talk.turn("6*7=42")
