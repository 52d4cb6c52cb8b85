"""What should run: the Kubernetes operator."""
