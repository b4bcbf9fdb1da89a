"""What a change of a fabric, such as a failure, does to its traffic."""
