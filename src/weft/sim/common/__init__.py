"""What the levels share: metrics of loads, programs of ranks, results by message and rank."""
