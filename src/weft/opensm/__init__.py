"""OpenSM: its files as data, exports, and the program itself on a simulated fabric."""
