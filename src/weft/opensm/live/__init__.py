"""A live subnet: the real OpenSM on ibsim, and what is read back from it."""
