"""What NetworkPolicies let through, by examples; and the rules that the kernel gets."""

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
"""Beside the cluster, at an address that others share."""
SPACES = {"shop": {"name": "shop"}, "watch": {"name": "watch"}}
TO_WEB = {"podSelector": {"matchLabels": {"app": "web"}}}
ALL: Manifest = {"podSelector": {}}


def policy(**spec: Any) -> Manifest:
    return {"metadata": {"namespace": "shop", "name": "p"}, "spec": spec}


def under(*policies: Manifest) -> Network:
    return Network(pods=(WEB, DB, PROBE, STORE), namespaces=SPACES, policies=policies)


def test_a_pod_that_no_policy_selects_talks_to_everybody():
    open_to_all = under()
    assert open_to_all.allows(PROBE, WEB, "tcp", 1)
    assert open_to_all.allows(WEB, "1.2.3.4", "udp", 1)
    of_others = under(policy(podSelector={"matchLabels": {"app": "db"}}))
    assert of_others.allows(PROBE, WEB, "tcp", 1)


def test_a_policy_without_rules_isolates_in_the_directions_that_it_names():
    inwards = under(policy(podSelector={}))
    assert not inwards.allows(PROBE, WEB, "tcp", 8080)
    assert inwards.allows(WEB, PROBE, "tcp", 8080)
    outwards = under(policy(podSelector={}, policyTypes=["Egress"]))
    assert outwards.allows(PROBE, WEB, "tcp", 8080)
    assert not outwards.allows(WEB, PROBE, "tcp", 8080)
    assert not outwards.allows(WEB, HOST, "udp", 53)


def test_egress_rules_isolate_where_no_types_are_given():
    both = under(policy(podSelector={}, egress=[{}]))
    assert not both.allows(PROBE, WEB, "tcp", 8080)
    assert both.allows(WEB, PROBE, "tcp", 8080)


def test_a_pod_always_reaches_itself():
    closed = under(policy(podSelector={}, policyTypes=["Ingress", "Egress"]))
    assert closed.allows(WEB, WEB, "tcp", 8080)


def test_a_peer_without_a_namespace_selector_is_of_the_policys_namespace():
    spec = under(policy(**TO_WEB, ingress=[{"from": [ALL]}]))
    assert spec.allows(DB, WEB, "tcp", 1)
    assert not spec.allows(PROBE, WEB, "tcp", 1)


def test_a_peer_with_both_selectors_must_meet_both():
    chosen = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "db"}}}
    spec = under(policy(**TO_WEB, ingress=[{"from": [chosen]}]))
    assert spec.allows(DB, WEB, "tcp", 1)
    assert not spec.allows(PROBE, WEB, "tcp", 1)
    either = [{"namespaceSelector": {"matchLabels": {"name": "watch"}}}, {"podSelector": {}}]
    assert under(policy(**TO_WEB, ingress=[{"from": either}])).allows(PROBE, WEB, "tcp", 1)


def test_ports_are_of_the_pod_that_is_called_and_may_be_named_there():
    spec = under(policy(**TO_WEB, ingress=[{"ports": [{"port": "http"}]}]))
    assert spec.allows(PROBE, WEB, "tcp", 8080)
    assert not spec.allows(PROBE, WEB, "tcp", 8081)
    assert not spec.allows(PROBE, WEB, "udp", 8080)
    outwards = policy(
        podSelector={"matchLabels": {"app": "db"}},
        policyTypes=["Egress"],
        egress=[{"ports": [{"port": "http"}]}],
    )
    assert under(outwards).allows(DB, WEB, "tcp", 8080)
    assert not under(outwards).allows(DB, PROBE, "tcp", 8080)


def test_a_range_of_ports_holds_both_its_ends():
    ports = [{"protocol": "UDP", "port": 100, "endPort": 102}]
    spec = under(policy(**TO_WEB, ingress=[{"ports": ports}]))
    assert [spec.allows(DB, WEB, "udp", port) for port in (99, 100, 102, 103)] == [
        False,
        True,
        True,
        False,
    ]


def test_a_block_of_addresses_may_have_holes():
    block = {"cidr": "10.0.0.0/8", "except": ["10.9.0.0/16"]}
    spec = under(
        policy(podSelector={}, policyTypes=["Egress"], egress=[{"to": [{"ipBlock": block}]}])
    )
    assert spec.allows(WEB, "10.1.0.1", "tcp", 443)
    assert not spec.allows(WEB, "10.9.0.1", "tcp", 443)
    assert not spec.allows(WEB, "8.8.8.8", "tcp", 443)


def test_policies_add_up():
    closed, opened = policy(podSelector={}), policy(**TO_WEB, ingress=[{"from": [ALL]}])
    assert under(closed, opened).allows(DB, WEB, "tcp", 1)
    assert not under(closed, opened).allows(WEB, DB, "tcp", 1)


def test_a_process_beside_the_cluster_is_a_pod_of_its_services_namespace_at_that_port_alone():
    spec = under(policy(podSelector={}, policyTypes=["Egress"], egress=[{"to": [ALL]}]))
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
def test_labels_are_selected_by_expressions(expression: Manifest, selected: bool):
    assert selects({"matchExpressions": [expression]}, {"a": "1"}) is selected


def test_a_network_is_read_from_what_the_api_server_says():
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


def test_the_kernels_rules_refuse_what_no_opening_admits():
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
        ruleset(under(spec))
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
