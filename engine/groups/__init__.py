"""Several KV cache groups in one pool: windows, chunks, linear attention and MLA beside full attention, as vLLM 0.33 has them."""
