"""A live subnet: the real OpenSM on ibsim, and the check of its dumps."""
