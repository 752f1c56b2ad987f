"""How requests of logs are divided into groups, sessions and tenants."""
