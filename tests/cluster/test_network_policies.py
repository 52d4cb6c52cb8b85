"""Traffic that NetworkPolicies allow, and the nftables rules that enforce them."""

from typing import Any

import pytest

from cluster.network.network_policies import Network, Opening, Pod, network, selects
from cluster.network.nftables import ruleset

Manifest = dict[str, Any]
HOST = "10.244.0.1"
WEB = Pod(
    namespace="shop",
    name="web",
    address="10.244.0.2",
    labels={"app": "web"},
    named={("tcp", "http"): 8080},
)
DB = Pod(namespace="shop", name="db", address="10.244.0.3", labels={"app": "db"})
PROBE = Pod(namespace="watch", name="probe", address="10.244.0.4")
STORE = Pod(namespace="shop", name="store", address=HOST, only=(("tcp", 9000),))
"""A process outside the cluster, at an address that it shares with other processes."""
NAMESPACES = {"shop": {"name": "shop"}, "watch": {"name": "watch"}}
TO_WEB = {"podSelector": {"matchLabels": {"app": "web"}}}
ALL: Manifest = {"podSelector": {}}


def policy(**spec: Any) -> Manifest:
    return {"metadata": {"namespace": "shop", "name": "p"}, "spec": spec}


def network_with(*policies: Manifest) -> Network:
    return Network(pods=(WEB, DB, PROBE, STORE), namespaces=NAMESPACES, policies=policies)


def test_pod_without_policy_is_not_isolated():
    without_policies = network_with()
    assert without_policies.allows(PROBE, WEB, "tcp", 1)
    assert without_policies.allows(WEB, "1.2.3.4", "udp", 1)
    policy_for_another_pod = network_with(policy(podSelector={"matchLabels": {"app": "db"}}))
    assert policy_for_another_pod.allows(PROBE, WEB, "tcp", 1)


def test_policy_without_rules_isolates_in_the_directions_of_its_policy_types():
    ingress_only = network_with(policy(podSelector={}))
    assert not ingress_only.allows(PROBE, WEB, "tcp", 8080)
    assert ingress_only.allows(WEB, PROBE, "tcp", 8080)
    egress_only = network_with(policy(podSelector={}, policyTypes=["Egress"]))
    assert egress_only.allows(PROBE, WEB, "tcp", 8080)
    assert not egress_only.allows(WEB, PROBE, "tcp", 8080)
    assert not egress_only.allows(WEB, HOST, "udp", 53)


def test_policy_types_default_to_both_if_there_are_egress_rules():
    egress_rule = network_with(policy(podSelector={}, egress=[{}]))
    assert not egress_rule.allows(PROBE, WEB, "tcp", 8080)
    assert egress_rule.allows(WEB, PROBE, "tcp", 8080)


def test_pod_always_reaches_itself():
    closed = network_with(policy(podSelector={}, policyTypes=["Ingress", "Egress"]))
    assert closed.allows(WEB, WEB, "tcp", 8080)


def test_peer_without_namespace_selector_is_in_the_namespace_of_the_policy():
    spec = network_with(policy(**TO_WEB, ingress=[{"from": [ALL]}]))
    assert spec.allows(DB, WEB, "tcp", 1)
    assert not spec.allows(PROBE, WEB, "tcp", 1)


def test_peer_with_two_selectors_must_match_both():
    peer = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "db"}}}
    spec = network_with(policy(**TO_WEB, ingress=[{"from": [peer]}]))
    assert spec.allows(DB, WEB, "tcp", 1)
    assert not spec.allows(PROBE, WEB, "tcp", 1)
    either = [{"namespaceSelector": {"matchLabels": {"name": "watch"}}}, {"podSelector": {}}]
    assert network_with(policy(**TO_WEB, ingress=[{"from": either}])).allows(PROBE, WEB, "tcp", 1)


def test_named_port_is_resolved_in_the_destination_pod():
    spec = network_with(policy(**TO_WEB, ingress=[{"ports": [{"port": "http"}]}]))
    assert spec.allows(PROBE, WEB, "tcp", 8080)
    assert not spec.allows(PROBE, WEB, "tcp", 8081)
    assert not spec.allows(PROBE, WEB, "udp", 8080)
    egress_only = policy(
        podSelector={"matchLabels": {"app": "db"}},
        policyTypes=["Egress"],
        egress=[{"ports": [{"port": "http"}]}],
    )
    assert network_with(egress_only).allows(DB, WEB, "tcp", 8080)
    assert not network_with(egress_only).allows(DB, PROBE, "tcp", 8080)


def test_port_range_includes_both_ends():
    ports = [{"protocol": "UDP", "port": 100, "endPort": 102}]
    spec = network_with(policy(**TO_WEB, ingress=[{"ports": ports}]))
    assert [spec.allows(DB, WEB, "udp", port) for port in (99, 100, 102, 103)] == [
        False,
        True,
        True,
        False,
    ]


def test_ip_block_excludes_its_exceptions():
    block = {"cidr": "10.0.0.0/8", "except": ["10.9.0.0/16"]}
    spec = network_with(
        policy(podSelector={}, policyTypes=["Egress"], egress=[{"to": [{"ipBlock": block}]}])
    )
    assert spec.allows(WEB, "10.1.0.1", "tcp", 443)
    assert not spec.allows(WEB, "10.9.0.1", "tcp", 443)
    assert not spec.allows(WEB, "8.8.8.8", "tcp", 443)


def test_policies_are_additive():
    closed, opened = policy(podSelector={}), policy(**TO_WEB, ingress=[{"from": [ALL]}])
    assert network_with(closed, opened).allows(DB, WEB, "tcp", 1)
    assert not network_with(closed, opened).allows(WEB, DB, "tcp", 1)


def test_process_outside_the_cluster_is_selected_as_a_pod_at_its_service_port_only():
    spec = network_with(policy(podSelector={}, policyTypes=["Egress"], egress=[{"to": [ALL]}]))
    assert spec.openings(WEB, "egress") == (
        Opening(networks=("10.244.0.2", "10.244.0.3")),
        Opening(networks=(HOST,), protocol="tcp", ports=(9000, 9000)),
    )


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ({"key": "a", "operator": "In", "values": ["1", "2"]}, True),
        ({"key": "a", "operator": "NotIn", "values": ["1"]}, False),
        ({"key": "b", "operator": "NotIn", "values": ["1"]}, True),
        ({"key": "a", "operator": "Exists"}, True),
        ({"key": "b", "operator": "Exists"}, False),
        ({"key": "b", "operator": "DoesNotExist"}, True),
    ],
)
def test_selector_matches_label_expressions(expression: Manifest, selected: bool):
    assert selects({"matchExpressions": [expression]}, {"a": "1"}) is selected


def test_network_is_built_from_api_objects():
    def pod(name: str, **status: Any) -> Manifest:
        port = {"name": "http", "containerPort": 8080}
        containers = [{"name": "c", "ports": [port, {"containerPort": 1}]}]
        return {
            "metadata": {"namespace": "shop", "name": name, "labels": {"app": name}},
            "spec": {"containers": containers},
            "status": status,
        }

    def endpoints(space: str, name: str, **endpoint: Any) -> Manifest:
        return {
            "metadata": {"namespace": space, "name": name},
            "endpoints": [{"addresses": [HOST], **endpoint}],
            "ports": [{"protocol": "TCP", "port": 9000}],
        }

    read = network(
        pods=[
            pod("web", phase="Running", podIP="10.244.0.2"),
            pod("early", phase="Pending"),
            pod("over", phase="Succeeded", podIP="10.244.0.9"),
        ],
        namespaces=[{"metadata": {"name": "shop", "labels": {"name": "shop"}}}],
        policies=[policy(podSelector={})],
        slices=[
            endpoints("shop", "store"),
            endpoints("shop", "of-pods", targetRef={"kind": "Pod"}),
            endpoints("default", "kubernetes"),
        ],
    )
    assert read.pods == (WEB, STORE)
    assert read.namespaces == {"shop": {"name": "shop"}}


def test_nftables_rules_reject_traffic_that_no_policy_allows():
    spec = policy(
        **TO_WEB,
        policyTypes=["Ingress", "Egress"],
        ingress=[{"from": [ALL], "ports": [{"port": "http"}]}],
        egress=[
            {"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.9.0.0/16"]}}]},
            {"ports": [{"protocol": "UDP", "port": 53}, {"port": 100, "endPort": 102}]},
        ],
    )
    assert (
        ruleset(network_with(spec))
        == """\
table ip agentrl-policies {
}
delete table ip agentrl-policies
table ip agentrl-policies {
 chain refuse {
  counter reject with icmp type admin-prohibited
 }
 chain egress-10.244.0.2 {
  ip daddr 10.244.0.2 return comment "shop/web"
  ip daddr { 10.0.0.0/8 } ip daddr != { 10.9.0.0/16 } return
  udp dport 53 return
  tcp dport 100-102 return
  goto refuse
 }
 chain ingress-10.244.0.2 {
  ip saddr 10.244.0.2 return comment "shop/web"
  ip saddr { 10.244.0.2, 10.244.0.3 } tcp dport 8080 return
  goto refuse
 }
 chain policies {
  ct state established,related return
  ip saddr vmap { 10.244.0.2 : jump egress-10.244.0.2 }
  ip daddr vmap { 10.244.0.2 : jump ingress-10.244.0.2 }
 }
 chain forward {
  type filter hook forward priority 0
  jump policies
 }
 chain input {
  type filter hook input priority 0
  jump policies
 }
}
"""
    )
