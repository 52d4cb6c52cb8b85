from agentrl_envs.environments.sciworld.actions import MAX_ACTIONS, Sight, menu, sight

LOOK = (
    "This room is called the hallway. In it, you see: \n\tthe agent\n\ta substance called air\n"
    "\ta picture\nYou also see:\n\tA door to the art studio (that is closed)\n"
    "\tA door to the kitchen (that is open)"
)
CARRIED = "In your inventory, you see:\n\tan orange\n\ta flower pot 3 (containing soil)\n"
NAMES = ["picture", "agent", "air", "hallway", "kitchen", "art studio door", "door to kitchen"]


def test_room_doors_things_and_what_is_carried_are_read():
    assert sight(LOOK, NAMES, CARRIED) == Sight(
        room="hallway",
        doors={"art studio": False, "kitchen": True},
        things=("picture",),
        terminals=(),
        carried=("orange", "flower pot 3"),
    )


def test_a_closed_door_is_opened_on_the_way():
    listed = menu("find", sight(LOOK, NAMES, CARRIED))
    assert listed["go art studio"] == ("open door to art studio", "go to art studio")
    assert listed["go kitchen"] == ("go to kitchen",)


def test_a_carried_item_can_be_put_into_a_box_in_sight():
    seen = sight(LOOK, [*NAMES, "red box"], CARRIED)
    assert menu("find", seen)["put flower pot 3 in red box"] == ("move flower pot 3 to red box",)


def test_wires_are_connected_only_where_a_task_is_about_a_circuit():
    seen = Sight("workshop", {}, ("bulb",), ("anode in bulb", "red wire terminal 1"), ())
    command = "connect red wire terminal 1 to anode in bulb"
    assert menu("circuit", seen)[command] == (command,)
    assert not any("wire" in action for action in menu("find", seen))


def test_the_list_is_bounded():
    crowd = Sight("kitchen", {}, tuple(f"thing {n}" for n in range(200)), (), ("orange",))
    assert len(menu("matter", crowd)) == MAX_ACTIONS


def test_animals_are_focused_on_only_outside_where_the_task_says_that_they_are():
    outside = Sight("outside", {"kitchen": True}, ("axe", "dove egg"), (), ("orange",))
    walk = ["go kitchen", "wait"]
    assert list(menu("observe", outside)) == [*walk, "focus axe", "focus dove egg"]
    assert list(menu("observe", outside._replace(room="foundry"))) == walk
