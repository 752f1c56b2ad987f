"""The fate of every prompt token, and the earlier request that each request is most like."""
