"""A real vLLM whose steps a test holds up, so that new weights come in the middle of a reply."""

import asyncio
import threading

from agentrl_components.engines.vllm_engine.start import start_vllm


class HeldVllm:
    """vLLM's `LLMEngine`, held up before a step."""

    def __init__(self, folder, options):
        self._engine = start_vllm(folder, options)
        self._steps = 0
        self._held_at = None
        self._reached = threading.Event()
        self._goes_on = threading.Event()

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def step(self):
        if self._steps == self._held_at:
            self._reached.set()
            self._goes_on.wait()
        self._steps += 1
        return self._engine.step()

    async def after_steps(self, steps, action):
        """Await `action` when vLLM has taken so many more steps. vLLM takes the next step when the
        action has begun."""
        self._reached.clear()
        self._goes_on.clear()
        self._held_at = self._steps + steps
        await asyncio.to_thread(self._reached.wait)
        begun = asyncio.create_task(action)
        for _ in range(3):
            await asyncio.sleep(0)
        self._goes_on.set()
        return await begun
