"""Models of machines, a TOML file each; the name of the file is that of the model."""
