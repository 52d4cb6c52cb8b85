#!/usr/bin/env bash
# Serve the Kubeflow Pipelines UI of the local cluster on http://127.0.0.1:3000: ui.sh KFP_SOURCE
# KFP_SOURCE is a checkout of kubeflow/pipelines 2.14.3; nothing of it enters this repository. Needs npm and
# Node.js 20 or newer. The first build takes 5 minutes on two cores.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
frontend=$(realpath "$1")/frontend
cache=${XDG_CACHE_HOME:-$HOME/.cache}/agentrl
state=${STATE:-$cache/cluster-state}
ip=10.244.0.1
cd "$frontend"
if [ ! -e build/index.html ]; then
  # the lock file names the placeholder package fs, which registries no longer have
  python3 - <<'P'
import json
for name in ("package.json", "package-lock.json"):
    with open(name) as file:
        content = json.load(file)
    packages = content.get("packages", {})
    packages.pop("node_modules/fs", None)
    for part in (content, packages.get("", {})):
        for key in ("dependencies", "devDependencies"):
            if isinstance(part.get(key), dict):
                part[key].pop("fs", None)
    with open(name, "w") as file:
        json.dump(content, file, indent=2)
P
  npm ci --ignore-scripts --no-audit --no-fund --engine-strict=false
  npm run -s build:tailwind
  DISABLE_ESLINT_PLUGIN=true GENERATE_SOURCEMAP=false CI=false npx react-scripts build
  (cd server && npm ci --no-audit --no-fund && npm run build)
fi
"$cache/cluster/mlmd/bin/python" "$here/grpcweb.py" 127.0.0.1:9095 $ip:8080 &
web=$!
trap 'kill $web' EXIT
cd server
KUBECONFIG=$state/admin.kubeconfig ML_PIPELINE_SERVICE_HOST=$ip ML_PIPELINE_SERVICE_PORT=8888 \
  METADATA_ENVOY_SERVICE_SERVICE_HOST=127.0.0.1 METADATA_ENVOY_SERVICE_SERVICE_PORT=9095 \
  MINIO_HOST=$ip MINIO_NAMESPACE= MINIO_PORT=9000 MINIO_ACCESS_KEY=minio MINIO_SECRET_KEY=minio123 \
  DEPLOYMENT=KUBEFLOW node dist/server.js ../build 3000
