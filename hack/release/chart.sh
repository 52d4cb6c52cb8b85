#!/usr/bin/env bash
# Package the chart and push it as an OCI artifact to REGISTRY/charts.
# Appends host=... and digest=sha256:... to GITHUB_OUTPUT. REGISTRY is HOST/OWNER, TOKEN the password.
set -euo pipefail
cd "$(dirname "$0")/../.."

host=${REGISTRY%%/*}
mkdir -p build
helm package helm/agentrl --destination build
helm registry login "$host" --username "${GITHUB_ACTOR:-ci}" --password-stdin <<<"$TOKEN"
pushed=$(helm push build/agentrl-*.tgz "oci://$REGISTRY/charts" 2>&1)
echo "$pushed"
digest=$(sed -n 's/^Digest: *//p' <<<"$pushed")
test -n "$digest"
printf 'host=%s\ndigest=%s\n' "$host" "$digest" >>"${GITHUB_OUTPUT:-/dev/stdout}"
