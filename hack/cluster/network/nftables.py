"""Translate NetworkPolicies to a table of nftables, which rejects what they do not allow.

The chains are attached to the forward and input hooks, after kube-proxy's address translation, so a
connection to a Service appears as one to the selected pod. br_netfilter passes packets between
ports of the bridge through these hooks, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from cluster.network.network_policies import Direction, Network, Opening, Pod

TABLE = "agentrl-policies"
COMMENT = 127
"""Maximum length of a comment, in bytes."""
SIDE: dict[Direction, tuple[str, str]] = {
    "ingress": ("daddr", "saddr"),
    "egress": ("saddr", "daddr"),
}
"""Fields of a packet that hold the address of the pod and of its peer."""


def ruleset(network: Network) -> str:
    """Input for `nft -f` that replaces the table in one transaction."""
    chains: list[str] = []
    jumps: list[str] = []
    for direction in ("egress", "ingress"):
        isolated = {
            pod.address: list(chain(pod, direction, openings))
            for pod in network.pods
            if (openings := network.openings(pod, direction)) is not None
        }
        for address, lines in sorted(isolated.items()):
            chains += [f" chain {direction}-{address} {{", *(f"  {line}" for line in lines), " }"]
        if isolated:
            verdicts = ", ".join(f"{one} : jump {direction}-{one}" for one in sorted(isolated))
            jumps.append(f"  ip {SIDE[direction][0]} vmap {{ {verdicts} }}")
    return "\n".join([
        f"table ip {TABLE} {{", "}", f"delete table ip {TABLE}",
        f"table ip {TABLE} {{",
        # "no route to host", to tell it from the "connection refused" of a closed port
        " chain refuse {", "  counter reject with icmp type admin-prohibited", " }",
        *chains,
        " chain policies {", "  ct state established,related return", *jumps, " }",
        *(
            line
            for hook in ("forward", "input")
            for line in (
                f" chain {hook} {{", f"  type filter hook {hook} priority 0",
                "  jump policies", " }",
            )
        ),
        "}", "",
    ])  # fmt: skip


def chain(pod: Pod, direction: Direction, openings: tuple[Opening, ...]) -> Iterator[str]:
    """Rules for the packets of a pod; `return` lets a packet pass."""
    peer = SIDE[direction][1]
    name = f"{pod.namespace}/{pod.name}"[:COMMENT]
    yield f'ip {peer} {pod.address} return comment "{name}"'
    for opening in openings:
        if opening.networks != ():
            yield " ".join([*conditions(opening, peer), "return"])
    yield "goto refuse"


def conditions(opening: Opening, peer: str) -> Iterator[str]:
    if opening.networks:
        yield f"ip {peer} {{ {', '.join(sorted(set(opening.networks)))} }}"
    if opening.excluded:
        yield f"ip {peer} != {{ {', '.join(sorted(set(opening.excluded)))} }}"
    if opening.ports:
        first, last = opening.ports
        yield f"{opening.protocol} dport {first}" + (f"-{last}" if last > first else "")
    elif opening.protocol:
        yield f"meta l4proto {opening.protocol}"
