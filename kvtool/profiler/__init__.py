"""One workload to one report: what is opened, the passes over it, advice, and the document."""
