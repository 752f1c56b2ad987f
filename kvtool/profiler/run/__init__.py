"""One run over a workload: its loop, the books that record each request, and the purposes that choose the books."""
