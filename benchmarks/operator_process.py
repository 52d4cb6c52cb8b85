"""The operator as a process of its own, and a stub of KFP and S3 for it to speak to.

python benchmarks/operator_process.py PORT      the stub
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

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "operator" / "apiserver"))

from apiserver import ApiServer  # noqa: E402

NAMESPACE = "kubeflow"


class Operator:
    """The operator's process."""

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
        """It serves one namespace, as in a chart's namespaced mode."""
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
        """As Kubernetes stops it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def most_memory_mib(self) -> float:
        """The most it ever held."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024

    def processor_s(self) -> float:
        """Processor seconds that it used."""
        assert self._process is not None
        return processor_s(self._process.pid)

    async def ready(self) -> None:
        """Wait until it says so."""
        await self._asked("/readyz", lambda status, page: status == 200)

    async def looked_at(self, count: int) -> None:
        """Wait until it has looked at so many runs."""
        sample = re.compile(r'agentrl_operator_reconcile_total\{result="success"\} (\S+)')

        def enough(status: int, page: str) -> bool:
            found = sample.findall(page)
            return bool(found) and float(found[0]) >= count

        await self._asked("/metrics", enough)

    async def _asked(self, path: str, wanted: Any) -> None:
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
        raise click.ClickException(f"the operator: {path}:\n{self._log.read_text()[-3000:]}")


def processor_s(pid: int) -> float:
    """Processor seconds of a process, as Linux tells."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stub(port: int) -> None:
    """KFP, whose runs run for ever, and an S3 with nothing in it."""
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
