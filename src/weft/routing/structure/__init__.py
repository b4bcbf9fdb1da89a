"""Recognising fat trees, KNS networks, tori and groups in fabrics that carry no labels."""
