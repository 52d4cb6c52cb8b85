#!/usr/bin/env bash
# Build the MinIO server that the store's tests start: tests/services/build_minio.sh
# Needs go >= 1.26. Lands in $AGENTRL_CACHE/bin (default ~/.cache/agentrl/bin), where the tests look.
# Cold, on 2 cores: about 90 s; again: nothing to do. The versions are pinned by minio/go.mod and go.sum.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${AGENTRL_CACHE:-$HOME/.cache/agentrl}/bin
mkdir -p "$bin"
if [ -x "$bin/minio" ]; then
  echo "$bin/minio is there"
  exit 0
fi
cd "$here/minio"
CGO_ENABLED=0 go build -mod=readonly -trimpath -buildvcs=false -ldflags '-s -w' \
  -o "$bin/minio.part" github.com/minio/minio
mv "$bin/minio.part" "$bin/minio"
echo "built $bin/minio"
