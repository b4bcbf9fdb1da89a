"""What every package uses: errors, units, the registry, frozen arrays, whole files, signals."""
