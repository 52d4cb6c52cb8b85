#!/usr/bin/env bash
# Print the chart as plain manifests, with its defaults and without the CRD, which
# kustomization.yaml takes from its own file:  helm/plain/render.sh > helm/plain/agentrl.yaml
# HELM: the helm to use.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "# Made by helm/plain/render.sh. Do not edit: change helm/agentrl."
# Some builds of Helm think of an ancient Kubernetes when there is no cluster to ask.
exec "${HELM:-helm}" template agentrl agentrl --namespace kubeflow --kube-version 1.36.0 \
  --set crds.enabled=false --skip-tests
