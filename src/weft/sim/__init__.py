"""Levels of detail at which a workload is run over routes."""
