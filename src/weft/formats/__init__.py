"""File formats, one file each: reading and writing together."""
