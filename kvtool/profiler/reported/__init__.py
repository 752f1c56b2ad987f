"""Compare servers' and providers' reports on requests with the run, and sum the costs."""
