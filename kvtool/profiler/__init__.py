"""Turn one workload into one report: opened inputs, the passes over it, advice, and the document."""
