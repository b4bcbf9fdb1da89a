"""What a fabric takes to build: cables, racks and the wiring list."""
