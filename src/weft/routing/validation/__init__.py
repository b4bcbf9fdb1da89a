"""Whether routes deliver, and the proof that they cannot deadlock."""
