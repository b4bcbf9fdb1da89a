"""Comparison of a cable plan, or of an earlier reading, with the fabric that was found."""
