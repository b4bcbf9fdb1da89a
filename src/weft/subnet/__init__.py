"""The live side: running OpenSM on a simulated fabric, exporting to a real one, auditing it."""
