"""Fuzz targets: forged and damaged input of every kind, fully determined by a seed."""
