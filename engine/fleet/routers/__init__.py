"""Rules by which requests are given to replicas: those of deployed routers by version, and plain ones beside them."""
