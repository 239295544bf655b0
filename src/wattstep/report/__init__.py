"""Showing runs: console tables, JSON and one HTML file that opens offline; nothing is computed here."""
