"""Two modules are not whole as they are published: what is missing is made here."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from command import run
from place import HERE
from recipes import ARGO, KFP

GO = {
    # these were never entered in the public checksum database: go.sum pins them
    "GONOSUMDB": f"{KFP.rpartition('/')[0]},sigs.k8s.io/scheduler-library",
    "GOFLAGS": "-buildvcs=false",
    "CGO_ENABLED": "0",  # what runs in images of its own is linked statically
}
PROTOC_GEN_GO = "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.6"
WHEELS = ("kfp-pipeline-spec==2.14.3", "protobuf==6.31.1", "googleapis-common-protos==1.70.0")
OLDER_API = f"{KFP}/api@v0.0.0-20250102152816-873e9dedd766"
"""The newest published one; only its hand-written package `cachekey` is taken."""


def source_of(folder: Path, upstream: str) -> Path:
    """Where Go keeps the source of a module that `folder` requires."""
    run("go", "mod", "download", upstream, cwd=folder, env=GO, seconds=600)
    listed = ("go", "list", "-mod=mod", "-m", "-f", "{{.Dir}}", upstream)
    return Path(run(*listed, cwd=folder, env=GO, seconds=600).strip())


def argo(folder: Path) -> None:
    """signal_linux.go is a symbolic link upstream, and the zip files of modules drop those."""
    copy(source_of(folder, ARGO), folder / "src")
    signals = folder / "src/workflow/executor/osspecific"
    shutil.copyfile(signals / "signal_darwin.go", signals / "signal_linux.go")
    run("go", "mod", "edit", f"-replace={ARGO}=./src", cwd=folder, env=GO)


def kfp(folder: Path) -> None:
    """Its modules `api` and `kubernetes_platform` are not published at this commit.

    Their code is protobuf output: it is generated again, from the descriptors inside the wheels
    of the same version.
    """
    python = folder / "venv/bin/python"
    run(sys.executable, "-m", "venv", folder / "venv")
    run(python, "-m", "pip", "-q", "install", *WHEELS, seconds=600)
    run(python, "-m", "pip", "-q", "install", "--no-deps", "kfp-kubernetes==2.14.3", seconds=600)
    run("go", "install", PROTOC_GEN_GO, cwd=folder, env=GO | {"GOBIN": str(folder)}, seconds=600)
    run(python, HERE / "kfp_protos.py", folder / "protoc-gen-go", folder / "out")
    for part in ("api", "kubernetes_platform"):
        shutil.copytree(folder / "out" / KFP / part, folder / part)
    older = downloaded(folder, OLDER_API)
    copy(older / "v2alpha1/go/cachekey", folder / "api/v2alpha1/go/cachekey")
    shutil.copyfile(older / "go.mod", folder / "api/go.mod")
    (folder / "kubernetes_platform/go.mod").write_text(
        f"module {KFP}/kubernetes_platform\ngo 1.24\nrequire google.golang.org/protobuf v1.36.6\n"
    )


def downloaded(folder: Path, version: str) -> Path:
    answer = run(
        "go", "mod", "download", "-json", version,
        cwd=folder, env=GO | {"GOFLAGS": "-mod=mod"}, seconds=600,
    )  # fmt: skip
    return Path(json.loads(answer)["Dir"])


def copy(source: Path, destination: Path) -> None:
    """A copy that may be written to: Go's module cache is read-only."""
    shutil.copytree(source, destination, copy_function=shutil.copyfile)
    for path in [destination, *destination.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)


STEPS: dict[str, Callable[[Path], None]] = {"argo": argo, "kfp": kfp}
