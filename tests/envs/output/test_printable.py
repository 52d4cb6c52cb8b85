import logging

from agentrl_envs.output.printable import CleanFormatter, clean, echo


def test_control_characters_are_replaced():
    assert clean("\x1b[2Jgo\ta\n\u202edoor\ud800") == "�[2Jgo\ta\n�door�"


def test_an_echoed_text_is_cleaned_and_its_prefix_may_be_coloured(capsys):
    echo("a\x1b[31mb\r\nc", prefix="\x1b[36mtrain\x1b[0m ", err=True)
    assert capsys.readouterr() == ("", "train a�[31mb\nc\n")  # click drops colours: no terminal


def test_a_log_line_holds_no_control_characters_of_its_arguments():
    record = logging.LogRecord("a", logging.INFO, "", 1, "task %s", ("\x1b]0;x\x07",), None)
    assert CleanFormatter("%(name)s: %(message)s").format(record) == "a: task �]0;x�"
