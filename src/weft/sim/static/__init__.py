"""Static level: loads of links, metrics, bisection bandwidth, and hashing over several paths."""
