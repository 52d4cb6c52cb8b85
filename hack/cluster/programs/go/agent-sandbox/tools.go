//go:build tools
package tools
import _ "sigs.k8s.io/agent-sandbox/cmd/agent-sandbox-controller"
