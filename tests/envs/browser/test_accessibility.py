from agentrl_envs.browser.accessibility import Box, elements


def node(number: int, role: str, name: str = "", *children: int, **properties):
    return {
        "nodeId": str(number),
        "backendDOMNodeId": number,
        "role": {"value": role},
        "name": {"value": name},
        "childIds": [str(child) for child in children],
        "properties": [
            {"name": key, "value": {"value": value}} for key, value in properties.items()
        ],
    }


def layout(boxes: dict[int, tuple[float, float, float, float]], scroll: float = 0):
    numbers = list(boxes)
    return {
        "documents": [
            {
                "nodes": {"backendNodeId": numbers},
                "layout": {
                    "nodeIndex": list(range(len(numbers))),
                    "bounds": [list(boxes[number]) for number in numbers],
                },
                "scrollOffsetY": scroll,
            }
        ]
    }


ROW = (0.0, 0.0, 100.0, 20.0)


def lines(tree, boxes, scroll: float = 0):
    return ["\t" * e.depth + e.line() for e in elements(tree, layout(boxes, scroll), 200, 100)]


def test_elements_are_numbered_and_indented_in_the_order_of_the_tree():
    tree = [
        node(90, "RootWebArea", "Shop", 7, 5),
        node(7, "link", "Mugs", focusable=True, focused=True),
        node(5, "button", "Buy"),
    ]
    assert lines(tree, {90: ROW, 7: ROW, 5: ROW}) == [
        "[1] RootWebArea 'Shop'",
        "\t[2] link 'Mugs' focused: True",
        "\t[3] button 'Buy'",
    ]


def test_empty_generic_elements_are_left_out_and_their_children_take_their_place():
    tree = [
        node(1, "RootWebArea", "Shop", 2),
        node(2, "generic", "", 3),
        node(3, "listitem", "", 4),
        node(4, "link", "Mugs"),
    ]
    boxes = dict.fromkeys(range(1, 5), ROW)
    assert lines(tree, boxes) == ["[1] RootWebArea 'Shop'", "\t[2] link 'Mugs'"]


def test_a_text_that_a_line_just_above_repeats_is_left_out():
    tree = [
        node(1, "RootWebArea", "Shop", 2, 4),
        node(2, "link", "Red mug", 3),
        node(3, "StaticText", "Red mug"),
        node(4, "StaticText", "In stock"),
    ]
    boxes = dict.fromkeys(range(1, 5), ROW)
    assert lines(tree, boxes)[1:] == ["\t[2] link 'Red mug'", "\t[3] StaticText 'In stock'"]


def test_60_percent_of_an_element_must_be_in_the_viewport():
    tree = [node(1, "RootWebArea", "Shop", 2, 3), node(2, "link", "In"), node(3, "link", "Out")]
    boxes = {1: ROW, 2: (0.0, 94.0, 100.0, 10.0), 3: (0.0, 95.0, 100.0, 10.0)}
    assert lines(tree, boxes)[1:] == ["\t[2] link 'In'"]
    boxes = {1: ROW, 2: (0.0, 205.0, 100.0, 10.0), 3: (0.0, 95.0, 100.0, 10.0)}
    assert lines(tree, boxes, scroll=200)[1:] == ["\t[2] link 'In'"]


def test_an_element_without_area_is_left_out():
    tree = [node(1, "RootWebArea", "Shop", 2, 3), node(2, "link", "Flat"), node(3, "link", "None")]
    assert lines(tree, {1: ROW, 2: (0.0, 0.0, 100.0, 0.0)}) == ["[1] RootWebArea 'Shop'"]


def test_options_of_a_closed_list_are_where_the_list_is():
    tree = [
        node(1, "RootWebArea", "Shop", 2),
        node(2, "combobox", "Colour", 3),
        node(3, "MenuListPopup", "", 4),
        node(4, "option", "red", selected=True),
    ]
    found = elements(tree, layout({1: ROW, 2: (10.0, 10.0, 50.0, 20.0)}), 200, 100)
    assert found[-1].line() == "[3] option 'red' selected: True"
    assert found[-1].box == Box(10, 10, 50, 20)


def test_text_that_a_style_sheet_generates_is_of_the_element_around_it():
    generated = node(3, "StaticText", "Price: ")
    del generated["backendDOMNodeId"]
    tree = [
        node(1, "RootWebArea", "Shop", 2),
        node(2, "paragraph", "", 3, 4),
        generated,
        node(4, "StaticText", "$12"),
    ]
    area = (10.0, 10.0, 50.0, 20.0)
    found = elements(tree, layout({1: ROW, 2: area, 4: area}), 200, 100)
    assert [each.line() for each in found[1:]] == [
        "[2] StaticText 'Price: '",
        "[3] StaticText '$12'",
    ]
    assert (found[1].node, found[1].box) == (2, Box(10, 10, 50, 20))


def test_the_centre_is_that_of_the_part_in_view():
    assert Box(-20, 90, 100, 20).centre(200, 100) == (40, 95)
