from agentrl_envs.environments.sciworld.ambiguity import question

HEAD = "Ambiguous request: Please enter the number for the action you intended:"
ASKED = (
    f"{HEAD}\n0:\tfocus on cup (in kitchen)\n1:\tfocus on cup (in inventory, in agent)\n"
    "2:\tfocus on a"
)


def test_other_answers_are_no_questions():
    assert question("The door is now open.") is None


def test_options_are_sorted_since_sciworlds_order_differs_from_run_to_run():
    asked = question(ASKED)
    assert asked is not None
    assert asked.text == (
        f"{HEAD}\n0:\tfocus on a\n1:\tfocus on cup (in inventory, in agent)\n"
        "2:\tfocus on cup (in kitchen)"
    )
    assert [asked.command(reply) for reply in ("0", "1", "2")] == ["2", "1", "0"]


def test_what_is_no_number_of_an_option_is_given_on_as_it_is():
    asked = question(ASKED)
    assert asked is not None
    assert [asked.command(reply) for reply in ("3", "look around", "")] == ["3", "look around", ""]


def test_a_listed_action_means_what_is_carried_unless_it_is_picked_up():
    asked = question(ASKED)
    assert asked is not None
    assert asked.choice("focus on cup") == "1"
    assert asked.choice("pick up cup") == "2"
