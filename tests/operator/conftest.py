from pathlib import Path

import pytest
from apiserver import ApiServer, missing

CRD = Path(__file__).parents[2] / "helm" / "agentrl" / "files" / "crd.yaml"


@pytest.fixture(scope="session")
def api_server(tmp_path_factory):
    """A real kube-apiserver with our CRD, for the whole session."""
    lacking = missing()
    if lacking is not None:
        pytest.skip(
            f"{lacking}: tests on a real kube-apiserver are left out; make cluster builds it"
        )
    with ApiServer.started(tmp_path_factory.mktemp("apiserver")) as server:
        server.install(CRD)
        yield server
