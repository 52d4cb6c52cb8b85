import re
from collections import Counter

import pytest

from agentrl_envs.environments.babyai import STARTER
from agentrl_envs.environments.babyai.actions import Plan
from agentrl_envs.environments.babyai.hindsight import achieved
from agentrl_envs.environments.babyai.level import build

PICK_UP, OPEN, GO_TO = (
    Plan((), verb, None) for verb in ("pick up", "toggle and go through", "go to")
)


def test_picked_up_ball_satisfies_three_goals_of_pickup_dist(layout):
    game = layout(["####", "#>.#", "####"], carrying="red ball")
    at_reset = Counter({("ball", "red"): 1, ("ball", "blue"): 1, ("key", "red"): 1})
    goals = achieved(game, PICK_UP._replace(it=game.carrying), False, at_reset)
    assert goals == ["pick up the red ball", "pick up a ball", "pick up a red object"]


def test_failed_actions_achieve_nothing(layout):
    game = layout(["####", "#>d#", "####"], d="locked red door")
    door = game.grid.get(2, 1)
    assert achieved(game, PICK_UP._replace(it=door), False, Counter()) == []
    assert achieved(game, OPEN._replace(it=door), False, Counter()) == []
    assert achieved(game, Plan((0,), "", None), False, Counter()) == []


def test_opening_a_door_counts_only_if_it_was_closed(layout):
    game = layout(["####", "#>d#", "####"], d="open red door")
    plan = OPEN._replace(it=game.grid.get(2, 1))
    at_reset = Counter({("door", "red"): 2})
    assert achieved(game, plan, False, at_reset) == ["open a red door"]
    assert achieved(game, plan, True, at_reset) == []


def test_go_to_counts_only_for_the_faced_object(layout):
    game = layout(["#####", "#>kb#", "#####"], k="grey key", b="red ball")
    at_reset = Counter({("key", "grey"): 1})
    faced, other = game.grid.get(2, 1), game.grid.get(3, 1)
    assert achieved(game, GO_TO._replace(it=faced), False, at_reset) == ["go to the grey key"]
    assert achieved(game, GO_TO._replace(it=other), False, at_reset) == []


@pytest.mark.parametrize("level", STARTER)
def test_achieved_goals_of_the_target_include_the_mission(level):
    game = build(level)
    for seed in range(150):
        game.reset(seed=seed)
        at_reset = Counter((it.type, it.color) for it in game.grid.grid if it)
        verb = re.match("pick up|open|go to", game.mission)[0]
        target = game.instrs.desc.obj_set[0]
        x, y = (int(v) for v in game.instrs.desc.obj_poss[0])
        if verb == "pick up":
            game.carrying, plan = target, PICK_UP
        elif verb == "open":
            target.is_open, plan = True, OPEN
        else:
            game.agent_pos, game.agent_dir, plan = (x - 1, y), 0, GO_TO
        assert game.mission in achieved(game, plan._replace(it=target), False, at_reset)
