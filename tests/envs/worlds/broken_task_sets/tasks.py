"""Task sets that violate the rules about tasks."""

import itertools
from dataclasses import replace

from agentrl_envs.env import Observation, Split, Task, content_id, split_of
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks
from agentrl_envs.errors import TaskError
from broken_task_sets.altered import Violation


class RandomIds(CorridorTasks):
    def task(self, split: Split, index: int) -> Task:
        task = super().task(split, index)
        return replace(task, id=f"corridor-{index}")


class SplitByIndex(CorridorTasks):
    def task(self, split: Split, index: int) -> Task:
        return super().task("train" if index % 2 else "heldout", index)


class ChangingTasks(CorridorTasks):
    generated = 0

    def task(self, split: Split, index: int) -> Task:
        self.generated += 1
        return super().task(split, index + self.generated)


class RepeatingTasks(CorridorTasks):
    def task(self, split: Split, index: int) -> Task:
        return super().task(split, index // 2)


class TuplePayloads(CorridorTasks):
    def task(self, split: Split, index: int) -> Task:
        task = super().task(split, index)
        return replace(task, payload={**task.payload, "way": ("a", "b")})

    def environment(self):
        class IgnoresWay(CorridorEnvironment):
            def reset(self, task: Task) -> Observation:
                known = {key: value for key, value in task.payload.items() if key != "way"}
                return super().reset(replace(task, payload=known))

        return IgnoresWay()


class AcceptsEveryPayload(CorridorTasks):
    def environment(self):
        class AcceptsPayload(CorridorEnvironment):
            def reset(self, task: Task) -> Observation:
                try:
                    return super().reset(task)
                except TaskError:
                    return Observation(text="come in")

        return AcceptsPayload()


class NoncePayloads(CorridorTasks):
    """The same corridors in both splits; a nonce makes their ids different."""

    def task(self, split: Split, index: int) -> Task:
        task = super().task("train", index)
        for nonce in itertools.count():
            payload = {**task.payload, "nonce": nonce}
            task_id = content_id("corridor", payload)
            if split_of(task_id) == split:
                return replace(task, id=task_id, payload=payload)
        raise AssertionError

    def environment(self):
        class IgnoresNonce(CorridorEnvironment):
            def reset(self, task: Task) -> Observation:
                if task.id != content_id("corridor", dict(task.payload)):
                    raise TaskError("another task's id")
                payload = {k: v for k, v in task.payload.items() if k != "nonce"}
                known = replace(task, id=content_id("corridor", payload), payload=payload)
                return super().reset(known)

        return IgnoresNonce()


class AcceptsEveryId(CorridorTasks):
    def environment(self):
        class AcceptsId(CorridorEnvironment):
            def reset(self, task: Task) -> Observation:
                return super().reset(replace(task, id=content_id("corridor", dict(task.payload))))

        return AcceptsId()


class DoubleSize(CorridorTasks):
    def size(self, split: Split) -> int:
        return 2 * super().size(split)


class SizePlusOne(CorridorTasks):
    def size(self, split: Split) -> int:
        return super().size(split) + 1


VIOLATIONS: list[Violation] = [
    (RandomIds(), "ids", "expected corridor-<16 hex digits>"),
    (SplitByIndex(), "split", "but its hash is in"),
    (ChangingTasks(), "same-task", "then corridor-"),
    (RepeatingTasks(), "distinct", "held-out tasks 0 and 1 are both"),
    (TuplePayloads(), "payload", "not the same after a round trip"),
    (AcceptsEveryPayload(), "foreign-task", "shows 'come in'"),
    (NoncePayloads(), "content", "are played alike"),
    (AcceptsEveryId(), "forged-task", "under the id"),
    (DoubleSize(), "size", "repeat those from 0 on, though there are 194"),
    (SizePlusOne(), "size", "though there are"),
]
