"""Advice: comparison of engines, recommendation, description and irregularities of a fabric."""
