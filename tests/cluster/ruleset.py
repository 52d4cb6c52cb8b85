"""A network's policies as a table of nftables: what they do not let through is refused, aloud.

Read where packets are forwarded and where they enter this machine, behind kube-proxy's translation:
a connection to a Service is seen as one to the pod that got it. Of packets that cross the bridge
alone the kernel shows these hooks as well, by br_netfilter.
"""

from __future__ import annotations

from collections.abc import Iterator

from policies import Direction, Network, Opening, Pod

TABLE = "agentrl-policies"
COMMENT = 127
"""Bytes of one, at most."""
SIDE: dict[Direction, tuple[str, str]] = {
    "ingress": ("daddr", "saddr"),
    "egress": ("saddr", "daddr"),
}
"""Where a packet has the pod's address, and where its peer's."""


def ruleset(network: Network) -> str:
    """In place of the last one, in one transaction."""
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
        # unlike a closed port, which answers "connection refused"
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
    """What a pod's packets go through; returning from it is being let through."""
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
