"""Bodies of the APIs of model providers, alone, in batches and in their own logs."""
