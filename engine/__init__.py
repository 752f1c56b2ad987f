"""The embedded paged-KV engine: vLLM V1's prefix cache and scheduler, with interchangeable runners."""
