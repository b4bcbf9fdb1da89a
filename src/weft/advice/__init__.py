"""What to do: engines compared, the answer in words, a fabric described, what it lacks."""
