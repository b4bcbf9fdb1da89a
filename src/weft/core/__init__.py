"""Common parts of all packages: errors, units, registry, frozen arrays, files, signals."""
