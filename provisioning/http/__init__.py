"""What every outgoing call shares: addresses, URLs, and when to ask again."""
