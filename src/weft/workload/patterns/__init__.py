"""Traffic patterns: who sends to whom."""
