"""Common parts of the levels: metrics of loads, programs of ranks, tables of results."""
