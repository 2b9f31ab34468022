"""Conversions between records and rows of Spark DataFrames."""
