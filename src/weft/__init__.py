"""weft: build, route, check and compare interconnects."""
