"""One run over a workload: its loop, the books that write down what each request did, and the purposes that choose the books."""
