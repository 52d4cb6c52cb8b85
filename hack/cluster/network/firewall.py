"""Enforce NetworkPolicies with nftables, because the bridge CNI plugin does not.

The process watches pods, namespaces, policies and EndpointSlices, and replaces the rules of the
kernel within 0.2 s of a change. While the API server does not answer, the last rules stay.
"""

from __future__ import annotations

import json
import ssl
import sys
import threading
import time
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

from cluster.command import run
from cluster.kubernetes.certificates import PKI
from cluster.network import network_policies
from cluster.network.nftables import ruleset
from cluster.settings import IP, STATE, ClusterError

SERVER = f"https://{IP}:6443"
KINDS = {
    "pods": "/api/v1/pods",
    "namespaces": "/api/v1/namespaces",
    "policies": "/apis/networking.k8s.io/v1/networkpolicies",
    "slices": "/apis/discovery.k8s.io/v1/endpointslices",
}
WRITTEN = STATE / "firewall.nft"
"""The rules in force, for debugging; the file exists once the first rules are loaded."""
WATCH_S = 300
SETTLE_S = 0.1
"""Changes within this many seconds are applied together."""


class Watch:
    """The current objects of one kind."""

    def __init__(self, path: str, changed: threading.Event) -> None:
        self._url = SERVER + path
        self._changed = changed
        self._context = ssl.create_default_context(cafile=PKI / "ca.crt")
        self._context.load_cert_chain(PKI / "admin.crt", PKI / "admin.key")
        self._objects: dict[str, Any] = {}
        self.listed = False
        self.thread = threading.Thread(target=self._follow, daemon=True, name=path)
        self.thread.start()

    def objects(self) -> list[Any]:
        return list(self._objects.values())

    def _follow(self) -> None:
        while True:
            try:
                self._watch(self._list())
            except (OSError, HTTPException, json.JSONDecodeError) as error:
                print(f"{self._url}: {error}", flush=True)
                time.sleep(0.5)

    def _list(self) -> str:
        with urllib.request.urlopen(self._url, context=self._context, timeout=10) as answer:
            listed = json.load(answer)
        self._objects = {one["metadata"]["uid"]: one for one in listed["items"]}
        self.listed = True
        self._changed.set()
        return str(listed["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> None:
        """Apply events until the server ends the watch, for example if the version is too old."""
        url = f"{self._url}?watch=1&resourceVersion={version}&timeoutSeconds={WATCH_S}"
        with urllib.request.urlopen(url, context=self._context, timeout=WATCH_S + 10) as events:
            for line in events:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                uid = event["object"]["metadata"]["uid"]
                # a new mapping, since the other thread may be reading the old one
                if event["type"] == "DELETED":
                    self._objects = {k: v for k, v in self._objects.items() if k != uid}
                else:
                    self._objects = {**self._objects, uid: event["object"]}
                self._changed.set()


def main() -> None:
    changed = threading.Event()
    watches = {kind: Watch(path, changed) for kind, path in KINDS.items()}
    written = ""
    while all(watch.thread.is_alive() for watch in watches.values()):
        if not changed.wait(timeout=5):
            continue
        time.sleep(SETTLE_S)
        changed.clear()
        if all(watch.listed for watch in watches.values()):
            written = enforce(written, watches)
    raise ClusterError("a watch thread exited; its traceback is above")


def enforce(written: str, watches: dict[str, Watch]) -> str:
    """Load the rules if they differ from `written`, those in force. Returns those in force."""
    wanted = ruleset(
        network_policies.network(**{kind: one.objects() for kind, one in watches.items()})
    )
    if wanted != written:
        run("nft", "-f", "-", stdin=wanted)
        part = Path(f"{WRITTEN}.part")
        part.write_text(wanted)
        part.rename(WRITTEN)
    return wanted


if __name__ == "__main__":
    try:
        main()
    except ClusterError as error:
        sys.exit(f"firewall: {error}")
