"""What the same requests would hit, wait and cost with other settings: each row is counted on the requests themselves."""
