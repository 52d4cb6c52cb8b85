"""Evaluate NetworkPolicies of networking.k8s.io/v1: which connections do they allow?

    Network(pods=..., namespaces=..., policies=...).allows(source, target, "tcp", 8080)

`firewall.py` enforces the result on the local cluster, and tests of the chart evaluate policies for
pods that exist in no cluster. IPv4 only.
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
    """A pod with an address, or a process beside the cluster that takes the place of one."""

    namespace: str
    name: str
    address: str
    labels: Mapping[str, str] = field(default_factory=dict)
    named: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Named ports: port number by protocol and name."""
    only: tuple[tuple[str, int], ...] | None = None
    """The ports that belong to it, if it shares its address with others; None means all ports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Connections that a rule allows, from the view of the pod that the policy selects."""

    networks: tuple[str, ...] | None = None
    """Addresses or CIDR blocks of the peers. None means any peer, empty means no peer."""
    excluded: tuple[str, ...] = ()
    protocol: str | None = None
    ports: tuple[int, int] | None = None
    """First and last port of the pod that is called; None means all ports."""

    def admits(self, peer: str, protocol: str, port: int) -> bool:
        near = self.networks is None or inside(peer, self.networks)
        spoken = self.protocol in (None, protocol)
        first, last = self.ports or (port, port)
        return near and not inside(peer, self.excluded) and spoken and first <= port <= last


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Everything that the evaluation depends on."""

    pods: tuple[Pod, ...]
    namespaces: Mapping[str, Mapping[str, str]]
    """Labels of each namespace, by name."""
    policies: tuple[Object, ...]

    def allows(self, source: Pod | str, target: Pod | str, protocol: str, port: int) -> bool:
        """Whether a connection is allowed. A `str` is the address of something other than a pod."""
        if source == target:
            return True  # policies do not apply to a pod's connections to itself
        return self._allows(source, "egress", target, protocol, port) and self._allows(
            target, "ingress", source, protocol, port
        )

    def _allows(
        self, one: Pod | str, direction: Direction, other: Pod | str, protocol: str, port: int
    ) -> bool:
        openings = None if isinstance(one, str) else self.openings(one, direction)
        if openings is None:
            return True
        address = other if isinstance(other, str) else other.address
        return any(opening.admits(address, protocol, port) for opening in openings)

    def openings(self, pod: Pod, direction: Direction) -> tuple[Opening, ...] | None:
        """What is allowed to or from a pod; None if no policy isolates it and everything is."""
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
                    selected = tuple(self._selected(peer, namespace))
                    yield from openings_to_pods(selected, port, direction, pod)
                elif direction == "egress" and port and isinstance(port.get("port"), str):
                    near = within(self.pods, peer["ipBlock"]) if peer else self.pods
                    yield from openings_to_pods(near, port, direction, pod)
                elif (numbers := resolve_ports(port, pod)) is not None:
                    yield opening_to_block(peer, *numbers)

    def _selected(self, peer: Object, namespace: str) -> Iterator[Pod]:
        """The pods that a peer selects, in the policy's namespace unless it selects namespaces."""
        spaces = peer.get("namespaceSelector")
        for pod in self.pods:
            if spaces is None:
                near = pod.namespace == namespace
            else:
                near = selects(spaces, self.namespaces.get(pod.namespace, {}))
            if near and selects(peer.get("podSelector") or {}, pod.labels):
                yield pod


def openings_to_pods(
    peers: tuple[Pod, ...], port: Object | None, direction: Direction, pod: Pod
) -> Iterator[Opening]:
    """Openings for the selected peers: one for all peers with the same port numbers."""
    if direction == "ingress":
        numbers = resolve_ports(port, pod)
        if numbers is not None:
            networks = tuple(peer.address for peer in peers if peer.only is None)
            yield Opening(networks=networks, protocol=numbers[0], ports=numbers[1])
        return
    alike: dict[tuple[str | None, tuple[int, int] | None], list[str]] = {}
    for peer in peers:
        numbers = resolve_ports(port, peer)
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


def resolve_ports(
    port: Object | None, called: Pod
) -> tuple[str | None, tuple[int, int] | None] | None:
    """Protocol and port range of an entry in `ports`; a named port is looked up in `called`.

    Returns None if `called` has no port of that name.
    """
    if port is None:
        return None, None
    protocol = port.get("protocol", "TCP").lower()
    number = port.get("port")
    if isinstance(number, str):
        number = called.named.get((protocol, number))
        return None if number is None else (protocol, (number, number))
    return protocol, None if number is None else (number, port.get("endPort", number))


def opening_to_block(
    peer: Object | None, protocol: str | None, ports: tuple[int, int] | None
) -> Opening:
    """Opening for an ipBlock, or for any peer if `peer` is None."""
    if peer is None:
        return Opening(protocol=protocol, ports=ports)
    block = peer["ipBlock"]
    # an IPv6 block contains no IPv4 address
    networks = (block["cidr"],) if "." in block["cidr"] else ()
    excluded = tuple(block.get("except") or ())
    return Opening(networks=networks, excluded=excluded, protocol=protocol, ports=ports)


def within(pods: tuple[Pod, ...], block: Object) -> tuple[Pod, ...]:
    opening = opening_to_block({"ipBlock": block}, None, None)
    return tuple(pod for pod in pods if opening.admits(pod.address, "", 0))


def inside(address: str, networks: tuple[str, ...]) -> bool:
    return any(ip_address(address) in ip_network(network) for network in networks)


def isolates(policy: Object, pod: Pod, direction: Direction) -> bool:
    """Whether a policy selects a pod and applies to this direction."""
    spec = policy["spec"]
    types = spec.get("policyTypes") or ("Ingress", *(("Egress",) if "egress" in spec else ()))
    return (
        pod.only is None
        and policy["metadata"]["namespace"] == pod.namespace
        and direction.capitalize() in types
        and selects(spec.get("podSelector") or {}, pod.labels)
    )


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector matches. An empty selector matches everything."""
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
    raise ValueError(f"unknown operator in a label selector: {expression['operator']}")


def network(
    pods: list[Object], namespaces: list[Object], policies: list[Object], slices: list[Object]
) -> Network:
    """A Network from the objects of a cluster."""
    return Network(
        pods=(
            *(known for pod in pods if (known := pod_from(pod))),
            *(process for one in slices for process in processes_from(one)),
        ),
        namespaces={
            one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in namespaces
        },
        policies=tuple(policies),
    )


def pod_from(pod: Object) -> Pod | None:
    """A Pod if it has an address of its own and has not ended, else None."""
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


def processes_from(endpoints: Object) -> Iterator[Pod]:
    """The processes behind a Service without pods; elsewhere they are pods of its namespace.

    The API server is left out: in other installations, too, it is not in the pod network.
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
