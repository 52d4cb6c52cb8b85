"""A process of the cluster that enforces its NetworkPolicies, which the bridge plugin does not.

It watches what decides, and writes the kernel's rules anew when that changes: within a fifth
of a second. While the API server is away the last rules stay.
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

import policies
from certificates import PKI
from command import run
from place import IP, STATE, ClusterError
from ruleset import ruleset

SERVER = f"https://{IP}:6443"
KINDS = {
    "pods": "/api/v1/pods",
    "namespaces": "/api/v1/namespaces",
    "policies": "/apis/networking.k8s.io/v1/networkpolicies",
    "slices": "/apis/discovery.k8s.io/v1/endpointslices",
}
WRITTEN = STATE / "firewall.nft"
"""The rules in force, for people who look for a mistake; there once the first are."""
WATCH_S = 300
SETTLE_S = 0.1
"""What changes within it is written together."""


class Watch:
    """The objects of one kind, as they are now."""

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
        """Until the server ends it, as it does when it has forgotten the version."""
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
    raise ClusterError("a watch has ended; its traceback is above")


def enforce(written: str, watches: dict[str, Watch]) -> str:
    """Write the rules if they are others than those in force; returns what is in force."""
    wanted = ruleset(policies.network(**{kind: one.objects() for kind, one in watches.items()}))
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
