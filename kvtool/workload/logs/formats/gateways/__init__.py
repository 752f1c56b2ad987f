"""Records of gateways and proxies between clients and providers."""
