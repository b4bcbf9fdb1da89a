"""OpenSM: its files as data, exports and audits, and the real program on a simulated fabric."""
