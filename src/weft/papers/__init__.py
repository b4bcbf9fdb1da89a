"""Papers, one file each: their experiments and the numbers that they print."""
