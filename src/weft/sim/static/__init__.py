"""Static level: loads of links, metrics, bisection bandwidth, hashing over multiple paths."""
