"""Which Ray clusters have room for all actors of a run."""

import pytest

from agentrl_components.errors import SpecError
from agentrl_components.ray_workers.resources import reservations
from agentrl_components.spec import Compute

GIB = 2.0**30


def wanted(trainers, samplers):
    """What these actors reserve on a cluster that other jobs use, too."""
    return reservations(Compute(ray="head:6379", trainers=trainers, samplers=samplers))


def machine(cpus, gpus=0, memory_gib=256.0):
    return {"CPU": float(cpus), "GPU": float(gpus), "memory": memory_gib * GIB}


def test_trainers_whose_sum_fits_but_of_which_each_machine_has_room_for_one_are_refused():
    """Regression: seven CPUs were needed and free, and the run waited for ever."""
    three = wanted({"count": 2, "cpu": "3", "memory": "1Gi"}, {"count": 1})
    with pytest.raises(SpecError) as refused:
        three.check_nodes([machine(5), machine(2)])
    assert str(refused.value) == (
        "spec.compute.trainers: 1 of 2 trainers fit on the machines of the Ray cluster (1 with "
        "5 CPUs, 256.0 GiB of memory; 1 with 2 CPUs, 256.0 GiB of memory); each actor must be on "
        "one machine, and there are 2 trainers (3 CPUs, 1.0 GiB of memory each) and 1 samplers "
        "(1 CPUs each); lower what they reserve, or their count"
    )
    three.check_nodes([machine(4), machine(3)])


def test_samplers_of_two_gpus_of_which_each_machine_has_room_for_one_are_refused():
    pairs = wanted({"count": 1}, {"count": 3, "gpus": 2, "tensorParallel": 2})
    with pytest.raises(SpecError, match=r"^spec\.compute\.samplers: 2 of 3 samplers fit"):
        pairs.check_nodes([machine(20, 3), machine(20, 3)])
    pairs.check_nodes([machine(20, 4), machine(20, 2)])


def test_a_trainer_whose_cpus_and_gpu_are_on_different_machines_is_refused():
    one = wanted({"count": 1, "cpu": "4", "gpus": 1}, {"count": 1, "gpus": 0})
    with pytest.raises(SpecError, match=r"^spec\.compute\.trainers: 0 of 1 trainers fit"):
        one.check_nodes([machine(8), machine(0, 1)])
    one.check_nodes([machine(8, 1)])


def test_the_memory_of_all_trainers_on_a_machine_counts():
    heavy = wanted({"count": 2, "cpu": "1", "memory": "64Gi"}, {"count": 1})
    with pytest.raises(SpecError, match=r"^spec\.compute\.trainers: 1 of 2 trainers fit"):
        heavy.check_nodes([machine(8, memory_gib=100)])
    heavy.check_nodes([machine(8, memory_gib=128)])


def test_a_way_to_place_all_actors_is_found_if_there_is_one():
    """The machine of four CPUs has to take four samplers: two trainers would fit there, too."""
    mixed = wanted({"count": 3, "cpu": "2", "memory": "1Gi"}, {"count": 5})
    mixed.check_nodes([machine(4), machine(6), machine(1)])
    with pytest.raises(SpecError, match=r"^spec\.compute\.samplers: 3 of 5 samplers fit"):
        mixed.check_nodes([machine(3), machine(5), machine(1)])


def test_tenths_of_cpus_fill_a_machine():
    tenths = wanted({"count": 7, "cpu": "100m", "memory": "1Gi"}, {"count": 3})
    tenths.check_nodes([machine(3.7)])


def test_an_evaluation_needs_no_room_for_trainers():
    three = wanted({"count": 2, "cpu": "3", "memory": "1Gi"}, {"count": 1})
    three.check_nodes([machine(5), machine(2)], trains=False)
