"""What NetworkPolicies let through, by the words of networking.k8s.io/v1.

    Network(pods=..., namespaces=..., policies=...).allows(source, target, "tcp", 8080)

The same reading twice: `firewall.py` enforces it on our own cluster, and tests of the chart ask it
about pods that no cluster has. IPv4 only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any, Literal

Object = Mapping[str, Any]
Direction = Literal["ingress", "egress"]
PEERS: dict[Direction, str] = {"ingress": "from", "egress": "to"}
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One that has an address; or a process beside the cluster that stands where one would."""

    namespace: str
    name: str
    address: str
    labels: Mapping[str, str] = field(default_factory=dict)
    named: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Its ports that have names: by protocol and name."""
    only: tuple[tuple[str, int], ...] | None = None
    """Its only ports, where others at this address are somebody else's. None: all are its."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Connections that a rule lets through, seen from the pod that is selected."""

    networks: tuple[str, ...] | None = None
    """Of the peers. None: any; empty: none."""
    excluded: tuple[str, ...] = ()
    protocol: str | None = None
    ports: tuple[int, int] | None = None
    """First and last, of whoever is called."""

    def admits(self, peer: str, protocol: str, port: int) -> bool:
        near = self.networks is None or inside(peer, self.networks)
        spoken = self.protocol in (None, protocol)
        first, last = self.ports or (port, port)
        return near and not inside(peer, self.excluded) and spoken and first <= port <= last


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """All that decides who may talk to whom."""

    pods: tuple[Pod, ...]
    namespaces: Mapping[str, Mapping[str, str]]
    """Their labels, by name."""
    policies: tuple[Object, ...]

    def allows(self, source: Pod | str, target: Pod | str, protocol: str, port: int) -> bool:
        """Whether a connection comes about. A `str` is the address of something that is no pod."""
        if source == target:
            return True  # no policy keeps a pod from itself
        return self._agrees(source, "egress", target, protocol, port) and self._agrees(
            target, "ingress", source, protocol, port
        )

    def _agrees(
        self, one: Pod | str, direction: Direction, other: Pod | str, protocol: str, port: int
    ) -> bool:
        openings = None if isinstance(one, str) else self.openings(one, direction)
        if openings is None:
            return True
        address = other if isinstance(other, str) else other.address
        return any(opening.admits(address, protocol, port) for opening in openings)

    def openings(self, pod: Pod, direction: Direction) -> tuple[Opening, ...] | None:
        """What is let through to or from a pod. None: no policy isolates it, so everything is."""
        isolating = [policy for policy in self.policies if isolates(policy, pod, direction)]
        if not isolating:
            return None
        return tuple(
            opening
            for policy in isolating
            for rule in policy["spec"].get(direction) or ()
            for opening in self._rule(rule, direction, policy["metadata"]["namespace"], pod)
        )

    def _rule(
        self, rule: Object, direction: Direction, namespace: str, pod: Pod
    ) -> Iterator[Opening]:
        for peer in rule.get(PEERS[direction]) or (None,):
            for port in rule.get("ports") or (None,):
                if peer is not None and "ipBlock" not in peer:
                    chosen = tuple(self._chosen(peer, namespace))
                    yield from among(chosen, port, direction, pod)
                elif direction == "egress" and port and isinstance(port.get("port"), str):
                    near = within(self.pods, peer["ipBlock"]) if peer else self.pods
                    yield from among(near, port, direction, pod)
                elif (numbers := numbered(port, pod)) is not None:
                    yield blocked(peer, *numbers)

    def _chosen(self, peer: Object, namespace: str) -> Iterator[Pod]:
        """The pods that a peer selects: of the policy's own namespace where it names no other."""
        spaces = peer.get("namespaceSelector")
        for pod in self.pods:
            if spaces is None:
                near = pod.namespace == namespace
            else:
                near = selects(spaces, self.namespaces.get(pod.namespace, {}))
            if near and selects(peer.get("podSelector") or {}, pod.labels):
                yield pod


def among(
    peers: tuple[Pod, ...], port: Object | None, direction: Direction, pod: Pod
) -> Iterator[Opening]:
    """The openings towards chosen pods: one for those that are called at the same ports."""
    if direction == "ingress":
        numbers = numbered(port, pod)
        if numbers is not None:
            networks = tuple(peer.address for peer in peers if peer.only is None)
            yield Opening(networks=networks, protocol=numbers[0], ports=numbers[1])
        return
    alike: dict[tuple[str | None, tuple[int, int] | None], list[str]] = {}
    for peer in peers:
        numbers = numbered(port, peer)
        if numbers is None:
            continue
        if peer.only is None:
            alike.setdefault(numbers, []).append(peer.address)
            continue
        rule = Opening(protocol=numbers[0], ports=numbers[1])
        for protocol, number in peer.only:
            if rule.admits(peer.address, protocol, number):
                alike.setdefault((protocol, (number, number)), []).append(peer.address)
    for (spoken, ports), addresses in alike.items():
        yield Opening(networks=tuple(addresses), protocol=spoken, ports=ports)


def numbered(port: Object | None, called: Pod) -> tuple[str | None, tuple[int, int] | None] | None:
    """Protocol and ports of a rule's entry, a name looked up in the pod that is called. None: it
    has no port of that name."""
    if port is None:
        return None, None
    protocol = port.get("protocol", "TCP").lower()
    number = port.get("port")
    if isinstance(number, str):
        number = called.named.get((protocol, number))
        return None if number is None else (protocol, (number, number))
    return protocol, None if number is None else (number, port.get("endPort", number))


def blocked(peer: Object | None, protocol: str | None, ports: tuple[int, int] | None) -> Opening:
    """Towards addresses, whoever has them."""
    if peer is None:
        return Opening(protocol=protocol, ports=ports)
    block = peer["ipBlock"]
    # of the other family, it holds none of our addresses
    networks = (block["cidr"],) if "." in block["cidr"] else ()
    excluded = tuple(block.get("except") or ())
    return Opening(networks=networks, excluded=excluded, protocol=protocol, ports=ports)


def within(pods: tuple[Pod, ...], block: Object) -> tuple[Pod, ...]:
    opening = blocked({"ipBlock": block}, None, None)
    return tuple(pod for pod in pods if opening.admits(pod.address, "", 0))


def inside(address: str, networks: tuple[str, ...]) -> bool:
    return any(ip_address(address) in ip_network(network) for network in networks)


def isolates(policy: Object, pod: Pod, direction: Direction) -> bool:
    """Whether a policy is about a pod, in this direction."""
    spec = policy["spec"]
    types = spec.get("policyTypes") or ("Ingress", *(("Egress",) if "egress" in spec else ()))
    return (
        pod.only is None
        and policy["metadata"]["namespace"] == pod.namespace
        and direction.capitalize() in types
        and selects(spec.get("podSelector") or {}, pod.labels)
    )


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector matches. An empty one matches everything."""
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        meets(expression, labels) for expression in selector.get("matchExpressions") or ()
    )


def meets(expression: Object, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise ValueError(f"no operator of a label selector: {expression['operator']}")


def network(
    pods: list[Object], namespaces: list[Object], policies: list[Object], slices: list[Object]
) -> Network:
    """From the objects that a cluster has."""
    return Network(
        pods=(
            *(known for pod in pods if (known := addressed(pod))),
            *(beside for one in slices for beside in standing_in(one)),
        ),
        namespaces={
            one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in namespaces
        },
        policies=tuple(policies),
    )


def addressed(pod: Object) -> Pod | None:
    """A pod that takes part: with an address of its own, and not over."""
    status, spec, metadata = pod.get("status") or {}, pod["spec"], pod["metadata"]
    if spec.get("hostNetwork") or not status.get("podIP") or status.get("phase") in ENDED:
        return None
    return Pod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        address=status["podIP"],
        labels=metadata.get("labels") or {},
        named={
            (port.get("protocol", "TCP").lower(), port["name"]): port["containerPort"]
            for container in (*spec.get("initContainers", ()), *spec["containers"])
            for port in container.get("ports", ())
            if "name" in port
        },
    )


def standing_in(endpoints: Object) -> Iterator[Pod]:
    """The process behind a Service without pods: in any other installation a pod of its namespace.

    But not the API server, which is a pod of no network anywhere.
    """
    metadata = endpoints["metadata"]
    if (metadata["namespace"], metadata["name"]) == ("default", "kubernetes"):
        return
    only = tuple(
        (port.get("protocol", "TCP").lower(), port["port"]) for port in endpoints.get("ports") or ()
    )
    for endpoint in endpoints.get("endpoints") or ():
        if "targetRef" not in endpoint:
            for address in endpoint["addresses"]:
                yield Pod(
                    namespace=metadata["namespace"],
                    name=metadata["name"],
                    address=address,
                    only=only,
                )
