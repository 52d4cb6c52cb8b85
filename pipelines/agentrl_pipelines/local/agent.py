"""A trained agent that plays one episode, turn by turn, beside a person.

The person may answer in the agent's place. The agent then continues from that answer as if it were
its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from agentrl_components.dialogue.open import Template, open_dialogue
from agentrl_components.engines.engine import Request, Sampling
from agentrl_components.engines.torch_engine.engine import TorchEngine
from agentrl_components.model.load import open_decoder
from agentrl_components.model.sources import fetch_model
from agentrl_components.reporting.description import model_metadata
from agentrl_components.rollout.episode import spoken
from agentrl_components.spec import Model
from agentrl_envs.env import Observation
from agentrl_pipelines.local.evaluation import checkpoint_model
from agentrl_pipelines.local.run_folder import open_run
from agentrl_pipelines.local.variables import set_variables


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """How an agent acts in an environment, of `reporting.description.model_metadata`."""

    template: Template = "auto"
    thinking: bool = False
    admissible: bool = True
    """Choose among the actions that the environment lists."""
    context: int = 1024
    """Maximum tokens of the episode."""
    max_tokens_per_turn: int = 64
    max_turns: int | None = None
    """Turns after which an episode is cut off. None: not known."""

    @classmethod
    def of(cls, metadata: dict[str, Any], environment: Mapping[str, Any]) -> Acting:
        """The settings in the metadata of a model, of which `environment` is one of the
        environments; empty: it was not trained in it."""
        acting = metadata["agentrl"]
        return cls(
            template=acting["template"],
            thinking=acting.get("thinking", False),  # not in models of earlier versions
            admissible=acting["actions"] == "admissible",
            context=acting["context"],
            max_tokens_per_turn=acting["max_tokens_per_turn"],
            max_turns=environment.get("max_turns", acting["max_turns"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAgent:
    """A model folder, and how the agent acts."""

    folder: Path
    acting: Acting
    options: dict[str, Any]
    """Options of the environment that it was trained in."""


def fetch_agent(source: str, checkpoint: str, environment: str, scratch: Path) -> SavedAgent:
    """The agent of a run's folder, or of a model source.

    Args:
        source: folder of a run, or `file://`, `s3://`, `hf://` or `models:/` as in
            `spec.model.source`.
        checkpoint: `best`, `last` or a number of iterations, if `source` is the folder of a run.
        environment: builtin name of the environment, whose options and turn limit are looked up.
        scratch: an empty folder for what is fetched.

    Raises:
        SpecError, StoreError, ModelError: there is no such run, checkpoint or model.
    """
    folder = scratch / "model"
    if "/" in source and source.split("/")[0].endswith(":"):
        found = fetch_model(Model(source=source), (), 0, folder)
        metadata = _registered_metadata(found)
    else:
        root = Path(source)
        _, run = open_run(root)
        set_variables(run.spec.compute)  # its environment may read them
        checkpoint_model(root, checkpoint, folder, run.spec.model)
        found, metadata = folder, model_metadata(run.spec)
    if metadata is None:
        return SavedAgent(folder=found, acting=Acting(), options={})
    environments = metadata["agentrl"]["environments"]
    there: dict[str, Any] = next((one for one in environments if one["builtin"] == environment), {})
    return SavedAgent(
        folder=found, acting=Acting.of(metadata, there), options=there.get("options", {})
    )


def _registered_metadata(folder: Path) -> dict[str, Any] | None:
    """What MLflow's registry keeps with a model. None: the model is not from a run."""
    described = folder / "MLmodel"
    if not described.is_file():
        return None
    metadata = (yaml.safe_load(described.read_text("utf-8")) or {}).get("metadata") or {}
    return metadata if "agentrl" in metadata else None


class TrainedAgent:
    """Implements `agentrl_envs.terminal.Partner` with a model, sampled greedily."""

    def __init__(self, saved: SavedAgent) -> None:
        """Raises `ModelError` if the model cannot be loaded."""
        self._acting = saved.acting
        decoder = open_decoder(saved.folder, torch.float32, torch.device("cpu"))
        self._dialogue = open_dialogue(
            saved.folder, saved.acting.template, False, thinking=saved.acting.thinking
        )
        self._engine = TorchEngine(decoder)
        self._runner = asyncio.Runner()
        self._session = 0
        self._ids: list[int] = []
        self._proposed: tuple[str, tuple[int, ...]] | None = None

    def begin(self, instructions: str, observation: Observation) -> None:
        self._new_session()
        self._proposed = None
        self._ids = self._dialogue.opening(instructions, observation.text)

    def propose(self, observation: Observation) -> str | None:
        if self._proposed is not None:
            return self._proposed[0]
        room = self._acting.context - len(self._ids)
        if room <= 0:
            return None
        admissible = None
        if self._acting.admissible and observation.admissible:
            admissible = [self._dialogue.encode_action(one) for one in observation.admissible]
        request = Request(
            session=self._session,
            ids=tuple(self._ids),
            seed=0,
            sampling=Sampling(
                temperature=0.0,
                top_p=1.0,
                max_tokens=min(self._acting.max_tokens_per_turn, room),
                stop=self._dialogue.stop,
            ),
            admissible=admissible,
        )
        reply = self._runner.run(self._engine.generate(request))
        said = spoken(reply, request, observation, self._dialogue)
        action = said if admissible else self._dialogue.action(said)
        self._proposed = action, reply.ids
        return action

    def played(self, action: str, observation: Observation) -> None:
        if self._proposed is not None and self._proposed[0] == action:
            ids = self._proposed[1]
        else:
            ids = (*self._dialogue.encode_action(action), self._dialogue.stop[0])
            self._new_session()  # the engine has cached its own reply, which was not played
        self._proposed = None
        self._ids += [*ids, *self._dialogue.following(ids, observation.text)]

    def _new_session(self) -> None:
        self._runner.run(self._engine.release(self._session))
        self._session += 1

    def close(self) -> None:
        """Free the engine."""
        self._runner.run(self._engine.close())
        self._runner.close()
