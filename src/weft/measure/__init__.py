"""Programs that measure real clusters."""
