"""What measurements should give on a fabric, and what is slow if they do not."""
