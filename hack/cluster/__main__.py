"""Start, fill and stop the Kubernetes cluster that the tests run on.

    python hack/cluster up               start the cluster, or check that it is complete
    python hack/cluster images           build the AgentRL images and load them into the cluster
    python hack/cluster where            print how to reach the cluster, as JSON
    python hack/cluster down             stop the cluster, if this tool started it

    python hack/cluster build [PROGRAM...]
                                         build the programs of the local cluster
    python hack/cluster local COMMAND    operate the local cluster; `local help` lists the commands

`up`, `images`, `where` and `down` work on the cluster that KUBECONFIG names, or else on a kind
cluster if Docker is running, or else on the local cluster. `AGENTRL_CLUSTER=external|kind|local`
overrides this choice. README.md describes the three kinds of cluster.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if not __package__:  # started by path: make the package importable by its name
    sys.path[0] = str(Path(__file__).resolve().parents[1])


def main(words: list[str]) -> int:
    """Run one command. Returns the exit status."""
    from cluster import local_commands, select_cluster
    from cluster.programs import build
    from cluster.shell import Terminal

    match words:
        case ["local", *rest]:
            return local_commands.main(rest)
        case ["build", *programs]:
            return build.main(programs)
        case [("up" | "images" | "where" | "down") as command]:
            return select_cluster.main(command, Terminal(), os.environ)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
