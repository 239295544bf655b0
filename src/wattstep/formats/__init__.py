"""Text that tools and boards print, as values in SI units; each format is one file, and bytes in give values or a clear error."""
