"""OpenSM: its files as data, exports, audits, and the program itself on a simulated fabric."""
