"""`weft paper`, and the same as a command of studies."""
