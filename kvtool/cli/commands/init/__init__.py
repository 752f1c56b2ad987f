"""The command `init`: what in a folder looks like prompts, and a first workload and configuration for them."""
