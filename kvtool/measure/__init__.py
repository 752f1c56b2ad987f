"""What really runs on this machine: forward passes, audits of logits, benchmarks."""
