"""Figures: ratios to the raw engine, measured interleaved in one run."""
