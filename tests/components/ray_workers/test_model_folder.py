"""Copies of a model on an actor's machine."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from learner_bench import spec
from ray_bench import connected, reserved

from agentrl_components.errors import ModelError
from agentrl_components.model.digests import digest_of
from agentrl_components.model.sources import fetch_model
from agentrl_components.ray_workers.model_folder import (
    ModelFolder,
    copied_once,
    own_folder,
)
from agentrl_components.ray_workers.samplers import RaySamplers
from agentrl_components.ray_workers.trainers import RayTrainers

WORDS = ("red", "ball", "go")
TINY = {"layers": 1, "hidden": 24, "heads": 3, "intermediate": 32}
SPEC = spec(model={"source": "tiny", "context": 64, "tiny": TINY})


def described(tmp_path, manifest=SPEC, name="driver"):
    """The driver's folder, as an actor on another machine sees it: its path is not there."""
    path = fetch_model(manifest.model, WORDS, manifest.seed, tmp_path / name)
    model = ModelFolder.of(manifest.model, path, WORDS)
    return replace(model, path=tmp_path / "elsewhere")


def test_actors_of_a_machine_share_one_copy_that_stays(tmp_path):
    model, machine = described(tmp_path), tmp_path / "tmp"
    machine.mkdir()
    first = model.open(SPEC, machine)
    written = (first / "model.safetensors").stat()
    again = model.open(SPEC, machine)
    assert again == first == machine / f"agentrl-models-{os.getuid()}" / model.content
    assert (first / "model.safetensors").stat() == written
    assert digest_of(first) == model.content
    assert (machine / f"agentrl-models-{os.getuid()}").stat().st_mode & 0o777 == 0o700


def test_another_seed_is_another_copy(tmp_path):
    other = SPEC.model_copy(update={"seed": SPEC.seed + 1})
    models = described(tmp_path), described(tmp_path, other, "other")
    one, two = (m.open(s, tmp_path) for m, s in zip(models, (SPEC, other), strict=True))
    assert one != two
    assert (one / "model.safetensors").read_bytes() != (two / "model.safetensors").read_bytes()


def test_the_drivers_own_folder_is_used_where_it_is(tmp_path):
    path = fetch_model(SPEC.model, WORDS, SPEC.seed, tmp_path / "driver")
    assert ModelFolder(path=path, vocabulary=WORDS).open(SPEC, tmp_path) == path


def test_a_folder_of_the_manifest_that_is_missing_on_a_machine_is_named_and_nothing_is_made(
    tmp_path,
):
    manifest = spec(model={"source": f"file://{tmp_path}/gone", "context": 64})
    model = ModelFolder(path=tmp_path / "gone", vocabulary=())
    with pytest.raises(ModelError, match=r"gone: no config\.json there"):
        model.open(manifest, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_another_model_on_a_machine_is_refused(tmp_path):
    path = fetch_model(SPEC.model, WORDS, SPEC.seed, tmp_path / "model")
    manifest = spec(model={"source": f"file://{path}", "context": 64})
    model = ModelFolder.of(manifest.model, path, ())
    assert model.open(manifest, tmp_path) == path

    fetch_model(SPEC.model, WORDS, SPEC.seed + 1, path)  # as on another machine
    with pytest.raises(ModelError, match=r"model: is another model on .* than on the driver's"):
        model.open(manifest, tmp_path)


def fetch_text(text):
    def fetch(model, vocabulary, seed, folder):
        (folder / "config.json").write_text(text)
        return folder

    return fetch


def test_a_bucket_that_has_changed_since_the_driver_read_it_is_refused(tmp_path):
    manifest = spec(model={"source": "s3://models/agent", "context": 64})
    (tmp_path / "driver").mkdir()
    path = fetch_text("{}")(manifest.model, (), 0, tmp_path / "driver")
    model = replace(ModelFolder.of(manifest.model, path, ()), path=tmp_path / "elsewhere")
    with pytest.raises(ModelError, match=r"s3://models/agent: has changed since the driver read"):
        model.open(manifest, tmp_path, fetch_text('{"new": 1}'))
    copy = model.open(manifest, tmp_path, fetch_text("{}"))
    assert (copy / "config.json").read_text() == "{}"
    # A copy that is there needs no source any more.
    assert model.open(manifest, tmp_path, fetch_text('{"new": 1}')) == copy


def test_one_of_several_actors_at_once_fetches_and_the_others_wait(tmp_path):
    fetched = []

    def fetch(folder):
        fetched.append(folder)
        for number in range(50):
            (folder / f"{number}.json").write_text("{}")
        return folder

    with ThreadPoolExecutor(8) as threads:
        futures = [threads.submit(copied_once, tmp_path / "abc", fetch) for _ in range(8)]
        places = {future.result() for future in futures}
    assert places == {tmp_path / "abc"}
    assert len(list((tmp_path / "abc").iterdir())) == 50
    assert fetched == [tmp_path / "abc.part"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["abc", "abc.lock"]


def test_a_model_inside_of_what_was_fetched_is_copied_alone(tmp_path):
    def fetch(folder):
        (folder / "model").mkdir()
        (folder / "model/config.json").write_text("{}")
        return folder / "model"

    place = copied_once(tmp_path / "abc", fetch)
    assert [p.name for p in place.iterdir()] == ["config.json"]
    assert not (tmp_path / "abc.part").exists()


def test_what_a_killed_actor_has_fetched_in_part_is_not_used(tmp_path):
    (tmp_path / "abc.part").mkdir()
    (tmp_path / "abc.part/half").write_text("")

    def fetch(folder):
        assert list(folder.iterdir()) == []
        (folder / "config.json").write_text("{}")
        return folder

    assert [p.name for p in copied_once(tmp_path / "abc", fetch).iterdir()] == ["config.json"]


def test_a_copy_that_fails_leaves_nothing_and_the_next_actor_fetches(tmp_path):
    def fails(folder):
        (folder / "half").write_text("")
        raise ModelError("gone")

    with pytest.raises(ModelError, match="gone"):
        copied_once(tmp_path / "abc", fails)
    assert [p.name for p in tmp_path.iterdir()] == ["abc.lock"]
    assert list(copied_once(tmp_path / "abc", lambda folder: folder).iterdir()) == []


def test_a_folder_of_another_user_is_not_trusted(tmp_path):
    me = os.getuid()
    (tmp_path / f"agentrl-models-{me + 1}").mkdir()  # it is mine, not theirs
    with pytest.raises(ModelError, match="is another user's; set TMPDIR"):
        own_folder(tmp_path, me + 1)
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / f"agentrl-models-{me}").symlink_to(target)
    with pytest.raises(ModelError, match="is another user's; set TMPDIR"):
        own_folder(tmp_path, me)


def test_a_model_that_an_actor_cannot_open_is_the_error_of_the_run():
    """Not the death of the actor, after which the run would try again."""
    pytest.importorskip("ray")
    source = "file:///data/models/absent"
    manifest = spec(model={"source": source, "template": "plain"})
    model = ModelFolder(path=Path("/data/models/absent"), vocabulary=())
    with connected(trainers=1, samplers=1):
        for open_actors in (
            RaySamplers(manifest, model, reserved(), "cpu", None).open,
            RayTrainers(manifest, model, reserved(), "cpu").open,
        ):
            with pytest.raises(ModelError, match=source):
                open_actors()
