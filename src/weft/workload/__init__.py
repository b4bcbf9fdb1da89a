"""What the hosts send: traffic patterns."""
