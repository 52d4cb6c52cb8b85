"""Process of the operator, and a stub server of KFP and S3 that it calls.

python benchmarks/operator_process.py PORT      start the stub
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import click
import yaml
from aiohttp import web

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / part) for part in ("operator/apiserver", "envs/processes")]

from apiserver import ApiServer  # noqa: E402

NAMESPACE = "kubeflow"


class Operator:
    """Process of the operator, with its log in `folder`."""

    def __init__(self, server: ApiServer, folder: Path, stub: int, metrics: int) -> None:
        platform = {
            "kfp": {"url": f"http://127.0.0.1:{stub}", "namespace": NAMESPACE},
            "storage": {"endpoint": f"http://127.0.0.1:{stub}", "region": "us-east-1"},
        }
        self._platform = folder / "platform.yaml"
        self._platform.write_text(yaml.safe_dump(platform))
        self._log = folder / "operator.log"
        self._port = metrics
        self._env = os.environ | {
            "KUBECONFIG": str(server.kubeconfig),
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process. It watches one namespace, as with `watchNamespaces` of the chart."""
        flags = ["--platform", str(self._platform), "--namespace", NAMESPACE]
        flags += ["--metrics-host", "127.0.0.1", "--metrics-port", str(self._port)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "agentrl_operator", *flags],
                env=self._env,
                stderr=log,
                stdout=log,
            )

    def stop(self) -> None:
        """Stop the process as Kubernetes does: SIGTERM, then SIGKILL after 20 s."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def peak_memory_mib(self) -> float:
        """Peak resident memory in MiB."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024

    def processor_s(self) -> float:
        """Processor seconds used so far."""
        assert self._process is not None
        return processor_s(self._process.pid)

    async def ready(self) -> None:
        """Wait until /readyz succeeds."""
        await self._wait_for("/readyz", lambda status, page: status == 200)

    async def reconciled(self, count: int) -> None:
        """Wait until `count` reconciliations have succeeded."""
        sample = re.compile(r'agentrl_operator_reconcile_total\{result="success"\} (\S+)')

        def enough(status: int, page: str) -> bool:
            found = sample.findall(page)
            return bool(found) and float(found[0]) >= count

        await self._wait_for("/metrics", enough)

    async def _wait_for(self, path: str, wanted: Any) -> None:
        """Request `path` until `wanted(status, body)` is true; fail after 120 s."""
        url, deadline = f"http://127.0.0.1:{self._port}{path}", time.monotonic() + 120
        async with aiohttp.ClientSession() as session:
            while time.monotonic() < deadline:
                try:
                    async with session.get(url) as response:
                        if wanted(response.status, await response.text()):
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.05)
        end = self._log.read_text()[-3000:]
        raise click.ClickException(f"operator: no success from {path} in 120 s; log:\n{end}")


def processor_s(pid: int) -> float:
    """Processor seconds of a process, from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stub(port: int) -> None:
    """Serve a KFP whose runs never end and an empty S3 store."""
    runs: dict[str, str] = {}

    async def answer(request: web.Request) -> web.Response:
        last = request.path.rpartition("/")[2]
        if not request.path.startswith("/apis/v2beta1/"):
            missing_key = "<Error><Code>NoSuchKey</Code></Error>"
            return web.Response(status=404, text=missing_key, content_type="application/xml")
        if request.method == "POST" and last == "experiments":
            return web.json_response({"experiment_id": "1"})
        if request.method == "POST" and last == "runs":
            run_id = (await request.json())["run_id"]
            if run_id in runs:
                raise SystemExit(f"{run_id} was posted twice")
            runs[run_id] = "RUNNING"
            return web.json_response({"run_id": run_id})
        if last not in runs:
            return web.json_response({"code": 5}, status=404)
        return web.json_response({"run_id": last, "state": runs[last]})

    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{path:.*}", answer)
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)


if __name__ == "__main__":
    stub(int(sys.argv[1]))
