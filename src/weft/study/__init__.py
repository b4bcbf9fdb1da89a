"""Studies: one file describes many runs of a command; their results are kept in a store."""
