"""`Forward`, on a stand-in for kubectl that ends after each connection."""

import socket
import sys

from forward import Forward

ONCE = """
import socket, sys
assert sys.argv[1:3] == ["port-forward", "service/minio-service"]
port, _, there = sys.argv[3].partition(":")
assert there == "9000"
with socket.create_server(("127.0.0.1", int(port))) as server:
    server.accept()[0].close()
"""


def test_a_port_is_answered_again_after_what_was_behind_it_has_gone(tmp_path):
    (tmp_path / "kubectl.py").write_text(ONCE)
    forward = Forward((sys.executable, str(tmp_path / "kubectl.py")), "minio-service", 9000)
    with forward as url:
        assert url.startswith("http://127.0.0.1:")
        assert forward.answers(10)
        assert forward.answers(10)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) != 0
