"""Commands that a study can run many times, one file each."""
