"""Colouring of flows for routing keys, and assignment of colours to switches."""
