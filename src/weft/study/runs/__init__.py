"""Many independent runs: what determines each, its results on disk, and where it is computed."""
